// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/simulate"
)

// exactly asks for a number of GPUs.
func exactly(n int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n,
	}}
}

// twoOrOne asks for two GPUs, or else for one.
func twoOrOne() resourceapi.DeviceRequest {
	request := resourceapi.DeviceRequest{Name: "gpus"}
	for _, n := range []int64{2, 1} {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("of-", n), DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n,
		})
	}
	return request
}

// all asks for all GPUs.
func all() resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll}}
}

// A bound follows from what nodes gain only if no node ever has two pods like the wanted ones. A pod with a prioritized list may take
// both devices of an empty node, but one if another pod has the other. The node may have two such pods in the end.
func TestHosts(t *testing.T) {
	for _, test := range []struct {
		name   string
		gpus   int
		asks   resourceapi.DeviceRequest
		shared bool
		hosts  int
	}{
		{"two of three", 3, exactly(2), false, 1},
		{"two of four", 4, exactly(2), false, 0},
		{"two or one, of two", 2, twoOrOne(), false, 0},
		{"two or one, of one", 1, twoOrOne(), false, 1},
		{"all of four", 4, all(), false, 1},
		{"all of four that pods share", 4, all(), true, 0},
	} {
		state, pods := world(t, test.gpus, test.asks, test.shared)
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

// Of a pod's requests, each must be for all devices, and for its own use.
func TestWantsAll(t *testing.T) {
	admin, two := all(), all()
	admin.Exactly.AdminAccess, two.Name = new(true), "more"
	claim := func(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
		claim := &resourceapi.ResourceClaim{}
		claim.Spec.Devices.Requests = requests
		return claim
	}
	extended := claim(all())
	extended.Annotations = map[string]string{extension.Annotation: "{}"}
	for name, test := range map[string]struct {
		claims []*resourceapi.ResourceClaim
		want   bool
	}{
		"none":                  {nil, false},
		"all":                   {[]*resourceapi.ResourceClaim{claim(all())}, true},
		"two requests for all":  {[]*resourceapi.ResourceClaim{claim(all(), two)}, true},
		"two claims":            {[]*resourceapi.ResourceClaim{claim(all()), claim(all())}, true},
		"a number":              {[]*resourceapi.ResourceClaim{claim(exactly(2))}, false},
		"all, and a number":     {[]*resourceapi.ResourceClaim{claim(two, exactly(2))}, false},
		"all, and then a claim": {[]*resourceapi.ResourceClaim{claim(all()), claim(exactly(2))}, false},
		"a list":                {[]*resourceapi.ResourceClaim{claim(twoOrOne())}, false},
		"with admin access":     {[]*resourceapi.ResourceClaim{claim(admin)}, false},
		"with an extension":     {[]*resourceapi.ResourceClaim{extended}, false},
	} {
		if got := wantsAll(test.claims); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// world has two nodes with so many GPUs each, which pods may share, a pod on one of them, and one that waits.
func world(t *testing.T, gpus int, asks resourceapi.DeviceRequest, shared bool) (*simulate.State, []*corev1.Pod) {
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
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i), AllowMultipleAllocations: &shared})
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

// More devices take more pods where each pod takes its number of devices, or all, or where no second one ever fits. A pod with a prioritized
// list takes both devices of an empty node, and one where another pod has the other: a node with less room takes as many.
func TestIsMonotone(t *testing.T) {
	two, list, all := exactly(2), twoOrOne(), all()
	for _, test := range []struct {
		gpus   int
		asks   resourceapi.DeviceRequest
		shared bool
		want   bool
	}{
		{2, two, false, true}, {3, two, false, true}, {4, two, false, true}, {5, two, false, true},
		{1, list, false, true}, {2, list, false, false}, {3, list, false, false}, {4, list, false, false},
		{1, all, false, true}, {4, all, false, true}, {4, all, true, false},
	} {
		state, pods := world(t, test.gpus, test.asks, test.shared)
		f, err := newFinder(state, Question{Nodes: []string{"a", "b"}, Wanted: pods[1:]})
		if err != nil {
			t.Fatal(err)
		}
		kinds, err := f.kindsOf(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		node, err := state.Node("a")
		if err != nil {
			t.Fatal(err)
		}
		shape := f.shapes[0]
		got, err := f.isMonotone(t.Context(), shape, f.kindOf(kinds, shape), node, make(map[simulate.RoomDevices]bool))
		if err != nil || got != test.want {
			t.Errorf("%d GPUs, shared: %t, %s: %t, %v; want %t", test.gpus, test.shared, &test.asks, got, err, test.want)
		}
	}
}

// A node that was undecided before proves nothing about what its pods leave.
func TestLacksDevices(t *testing.T) {
	state, pods := world(t, 1, exactly(1), false)
	for before, want := range map[simulate.Fit]bool{{}: true, {Undecided: 1}: false, {Pods: 1}: false} {
		f, err := newFinder(state, Question{Nodes: []string{"a", "b"}, Wanted: pods[1:]})
		if err != nil {
			t.Fatal(err)
		}
		f.before, f.monotone = []simulate.Fit{before}, []bool{true}
		if got, err := f.lacksDevices(t.Context(), state, nil, 0); err != nil || got != want {
			t.Errorf("before %+v: %t, %v; want %t", before, got, err, want)
		}
	}
}

// TestPasses: all sets that cost so much can be looked at if there are no more of them than Sets, or if those that cost more begin by
// then.
func TestPasses(t *testing.T) {
	for _, test := range []struct {
		costs []float64
		most  int // sets
		least float64
		want  bool
	}{
		{nil, 0, 0, true},
		{[]float64{1, 2}, 3, 3, true}, // {1}, {2} and both
		{[]float64{1, 2}, 2, 3, false},
		{[]float64{1, 2}, 2, 2, true},
		{[]float64{1, 2}, 1, 2, false},
		{[]float64{1, 2}, 1, 1, true},
		{[]float64{1, 2}, 0, 0.5, true},
		{[]float64{1, 2}, 0, 1, false},
	} {
		f := &finder{Question: Question{Sets: test.most}}
		if got := f.passes(test.costs, test.least); got != test.want {
			t.Errorf("costs %v, %d sets, up to %v: %v", test.costs, test.most, test.least, got)
		}
	}
}
