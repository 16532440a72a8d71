// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// A bound follows from what nodes gain only if no node ever has two pods like the wanted ones. A pod with a prioritized list may take
// both devices of an empty node, but one if another pod has the other. The node may have two such pods in the end.
func TestHosts(t *testing.T) {
	count := func(name string, n int64) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n}
	}
	exactly := func(n int64) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n,
		}}
	}
	for _, test := range []struct {
		name  string
		gpus  int
		asks  resourceapi.DeviceRequest
		hosts int
	}{
		{"two of three", 3, exactly(2), 1},
		{"two of four", 4, exactly(2), 0},
		{"two or one, of two", 2, resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{count("two", 2), count("one", 1)}}, 0},
		{"two or one, of one", 1, resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{count("two", 2), count("one", 1)}}, 1},
	} {
		state, pods := world(t, test.gpus, test.asks)
		f, err := newFinder(state, Question{Nodes: []string{"a", "b"}, Wanted: pods[1:]})
		if err != nil {
			t.Fatal(err)
		}
		kinds, err := f.kindsOf(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shape := f.shapes[0]
		hosts, err := f.hosts(t.Context(), shape, f.kindOf(kinds, shape))
		if err != nil || len(hosts) != test.hosts {
			t.Errorf("%s: hosts %v, %v; want %d", test.name, hosts, err, test.hosts)
		}
	}
}

// world has two nodes with so many GPUs each, a pod on one of them, and one that waits.
func world(t *testing.T, gpus int, asks resourceapi.DeviceRequest) (*simulate.State, []*corev1.Pod) {
	t.Helper()
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	template := &resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name = "default", "gpus"
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{asks}
	c := simulate.Cluster{Classes: []*resourceapi.DeviceClass{class}, Templates: []*resourceapi.ResourceClaimTemplate{template}}
	for _, name := range []string{"a", "b"} {
		node, slice := &corev1.Node{}, &resourceapi.ResourceSlice{}
		node.Name, slice.Name = name, name
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}
		for i := range gpus {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
		}
		c.Nodes, c.Slices = append(c.Nodes, node), append(c.Slices, slice)
	}
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for i := range 2 {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", fmt.Sprint("pod-", i)
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template.Name}}
		pods = append(pods, pod)
	}
	sim := state.Sim()
	if r, err := sim.Place(t.Context(), pods[0], simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
		t.Fatal(r, err)
	}
	return sim.State(), pods
}
