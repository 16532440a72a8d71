// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
)

// The first pod can use any GPU, and would take the large one. Then there is none for the second.
func ExampleAsk() {
	features := allocator.AllFeatures()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: "node-a", ResourceSliceCount: 1},
	}}
	for name, large := range map[string]bool{"gpu-0": true, "gpu-1": false} {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"large": {BoolValue: &large}},
		})
	}
	if slice.Spec.Devices[0].Name == "gpu-1" {
		slice.Spec.Devices[0], slice.Spec.Devices[1] = slice.Spec.Devices[1], slice.Spec.Devices[0]
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pod := func(name, selector string) gang.Pod {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}},
		}}}
		return gang.Pod{Variants: [][]*resourceapi.ResourceClaim{{claim}}}
	}
	a := allocator.New(allocator.Options{Features: features})
	result, err := gang.Ask(context.Background(), gang.Question{
		Compile: func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
			return a.Compile(claims, allocator.ClassMap(class))
		},
		State: pools.NewLedger(pools.Build(features.PoolGates(), []*resourceapi.ResourceSlice{slice})).State(),
		Nodes: []*corev1.Node{node},
		Pods:  []gang.Pod{pod("any", "true"), pod("large", `device.attributes["gpu.example.com"].large`)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Placed(), "pods have a place, one after the other:", result.OneByOne)
	for _, place := range result.Places {
		fmt.Println(place.Claims[0].Name, place.Claims[0].Status.Allocation.Devices.Results[0].Device)
	}
	// Output:
	// 2 pods have a place, one after the other: false
	// any gpu-1
	// large gpu-0
}
