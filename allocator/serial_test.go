// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// Nodes share answers also where selectors read what differs between all devices, or may read anything: what the
// selectors say of devices is what counts.
func TestSelectorsThatReadSerialNumbers(t *testing.T) {
	const count, perNode = 150, 8
	var nodes []*corev1.Node
	var slices []*resourceapi.ResourceSlice
	for n := range count {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", n)}}
		slice := &resourceapi.ResourceSlice{ObjectMeta: node.ObjectMeta}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: node.Name, ResourceSliceCount: 1}}
		for i := range int64(perNode) {
			serial := int64(n)*perNode + i
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"serial": {IntValue: &serial}}})
		}
		nodes, slices = append(nodes, node), append(slices, slice)
	}
	features := allocator.AllFeatures()
	idle := pools.NewState(pools.Build(features.PoolGates(), slices))
	used := idle
	for _, node := range nodes {
		claim := &resourceapi.ResourceClaim{ObjectMeta: node.ObjectMeta}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpus", Driver: "gpu.example.com", Pool: node.Name, Device: "gpu-0"},
		}}}
		var err error
		if used, err = used.Assume(claim); err != nil {
			t.Fatal(err)
		}
	}
	for selector, unfit := range map[string]int{
		`!(device.attributes["gpu.example.com"].serial in [3, 4, 81, 82, 1001, 1002])`:                               3,
		`!device.attributes["gpu.example.com"].exists(name, device.attributes["gpu.example.com"][name] in [83, 84])`: 1,
	} {
		a := allocator.New(allocator.Options{Features: features})
		ask := func(claim string, state *pools.State) (steps, evaluations int64) {
			request := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: perNode - 1,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}}
			pending := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim}}
			pending.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: request}}
			problem, err := a.Compile([]*resourceapi.ResourceClaim{pending}, allocator.ClassMap(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}))
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for _, node := range nodes {
				found, err := problem.Feasible(t.Context(), state, node)
				if err != nil {
					t.Fatal(err)
				}
				if found.Verdict() == allocator.NotSatisfiable {
					refused++
				}
				steps, evaluations = steps+found.Stats().Steps, evaluations+found.Stats().CELEvaluations
			}
			if refused != unfit {
				t.Errorf("%s: %d nodes are refused, want %d", selector, refused, unfit)
			}
			return steps, evaluations
		}
		ask("first", idle)
		second, _ := ask("second", used) // which tells devices apart by verdicts from the beginning
		if second > 10*perNode {
			t.Errorf("%s: the second pod takes %d steps", selector, second)
		}
		if steps, evaluations := ask("third", used); steps != 0 || evaluations != 0 {
			t.Errorf("%s: a pod that was asked about before takes %d steps and %d evaluations", selector, steps, evaluations)
		}
	}
}
