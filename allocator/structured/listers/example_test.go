// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package listers_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	// In a program of v0.31: "k8s.io/api/resource/v1alpha3" and
	// "k8s.io/client-go/listers/resource/v1alpha3".
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	// In a program of v0.31: "k8s.io/dynamic-resource-allocation/structured".
	structured "github.com/dray-project/dray/allocator/structured/listers"
)

// allocated is what a program gives the allocator besides the listers of its informers. In a
// program of v0.31 it is the same, with another group version.
type allocated []*resourceapi.ResourceClaim

func (a allocated) ListAllAllocated() ([]*resourceapi.ResourceClaim, error) { return a, nil }

// Example is a program that was written for v0.31, after the change. Comments say what was
// there before.
func Example() {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   "gpu.example.com",
			NodeName: ptr.To("worker"), // NodeName: "worker"
			Pool:     resourceapi.ResourcePool{Name: "worker", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{
				Name: "gpu-0",
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{ // Basic: &BasicDevice{Attributes: …}
					"model": {StringValue: ptr.To("large")},
				},
			}},
		},
	}
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "training"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{
				Name: "gpu",
				Exactly: &resourceapi.ExactDeviceRequest{ // these fields were fields of the request
					DeviceClassName: "gpu",
					Selectors: []resourceapi.DeviceSelector{{
						CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "large"`},
					}},
					AllocationMode: resourceapi.DeviceAllocationModeExactCount,
					Count:          1,
				},
			}},
		}},
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}

	// From here on, nothing changes.
	slices, classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := slices.Add(slice); err != nil {
		panic(err)
	}
	if err := classes.Add(class); err != nil {
		panic(err)
	}
	allocator, err := structured.NewAllocator(context.Background(), []*resourceapi.ResourceClaim{claim}, allocated(nil),
		resourcelisters.NewDeviceClassLister(classes), resourcelisters.NewResourceSliceLister(slices))
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"worker", "other"} {
		results, err := allocator.Allocate(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil {
			panic(err)
		}
		if results == nil {
			fmt.Println(name, "has no device for the claim")
			continue
		}
		for _, device := range results[0].Devices.Results {
			fmt.Println(name, "gives", device.Device)
		}
	}
	// Output:
	// worker gives gpu-0
	// other has no device for the claim
}
