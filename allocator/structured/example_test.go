// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	// The one line that changes in a program written for
	// k8s.io/dynamic-resource-allocation/structured.
	"github.com/dray-project/dray/allocator/structured"
)

// classes is a lister as informers provide it.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("device class %s not found", name)
}

func Example() {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-nics"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   "nic.example.com",
			NodeName: ptr.To("worker"),
			Pool:     resourceapi.ResourcePool{Name: "worker", Generation: 1, ResourceSliceCount: 1},
			Devices:  []resourceapi.Device{{Name: "eth0"}, {Name: "eth1"}},
		},
	}
	nic := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"}}
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "uplink"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{
				Name: "nic",
				Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: "nic",
					AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
					Count:           1,
				},
			}},
		}},
	}
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New(structured.MakeDeviceID("nic.example.com", "worker", "eth0")),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}

	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, structured.Features{PrioritizedList: true}, state,
		classes{nic}, []*resourceapi.ResourceSlice{slice}, cel.NewCache(10, cel.Features{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	results, err := allocator.Allocate(ctx, worker, []*resourceapi.ResourceClaim{claim})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, result := range results[0].Devices.Results {
		fmt.Println(result.Request, result.Driver, result.Pool, result.Device)
	}
	// Output: nic nic.example.com worker eth1
}
