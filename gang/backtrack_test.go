// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
)

// reaching adds devices to a question that all nodes reach, the first of them with a rail. Their pool comes first.
func reaching(q gang.Question, devices, railed int) gang.Question {
	shared := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", AllNodes: ptr.To(true), Pool: resourceapi.ResourcePool{Name: "all", Generation: 1, ResourceSliceCount: 1},
	}}
	shared.Name = "all"
	for i := range devices {
		device := resourceapi.Device{Name: fmt.Sprint("shared-", i)}
		if i < railed {
			device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rail": text("x")}
		}
		shared.Spec.Devices = append(shared.Spec.Devices, device)
	}
	published := []*resourceapi.ResourceSlice{shared}
	for pool := range q.State.Snapshot().Pools() {
		for slice := range pool.Slices() {
			published = append(published, slice)
		}
	}
	q.State = pools.NewState(pools.Build(allocator.AllFeatures().PoolGates(), published))
	return q
}

// only has a pod run on one node, with so many devices.
func only(q *gang.Question, pod, node int, devices int64) {
	p := &q.Pods[pod]
	p.Kind = fmt.Sprint("pod-", pod)
	p.Variants[0][0].Spec.Devices.Requests[0].Exactly.Count = devices
	p.Variant = func(n int) int {
		if n == node {
			return 0
		}
		return -1
	}
}

// A pod that could have many devices that other nodes reach gets one of its own node, so that another pod has them all.
func TestBacktrackToDevicesOfTheNode(t *testing.T) {
	q := reaching(withPods(rails([]attribute{{}}, nil), 2), 4, 0)
	only(&q, 0, 0, 1)
	only(&q, 1, 1, 4)
	if r := ask(t, q); r.Verdict != allocator.Satisfiable || devicesIn(r) != "node-0/device-0 all/shared-0" {
		t.Errorf("%v: %s", r.Verdict, devicesIn(r))
	}
}

// The first pod takes the third device in the end, as another pod needs both of the others.
func TestBacktrackToOtherDevices(t *testing.T) {
	q := reaching(withPods(rails(nil, nil), 2), 3, 2)
	only(&q, 0, 0, 1)
	only(&q, 1, 1, 2)
	q.Pods[1].Variants[0][0].Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `"rail" in device.attributes["gpu.example.com"]`,
	}}}
	if r := ask(t, q); r.Verdict != allocator.Satisfiable || r.Places[0].Claims[0].Status.Allocation.Devices.Results[0].Device != "shared-2" {
		t.Errorf("%v: %+v", r.Verdict, r.Places)
	}
}

// A no is a proof only if it is one for each domain: where only the last one has a node by itself, devices that several nodes reach may
// have been chosen wrongly for the others.
func TestNoIsNotProvenInEachDomain(t *testing.T) {
	x, y := text("x"), text("y")
	q := reaching(withPods(rails([]attribute{x}, []attribute{x}, []attribute{y, y, y}), 3), 1, 0)
	q.Group, q.Room = match, func(_ int, pods []int) bool { return len(pods) < 2 }
	if r := ask(t, q); r.Verdict != allocator.NotSatisfiable || r.Exact || r.Placed() != 2 {
		t.Errorf("%v, exact %v, with %d pods", r.Verdict, r.Exact, r.Placed())
	}
}

// The pods that fit least have their places first: the other way round, all ways to divide the others among the nodes are tried.
func TestHardestKindFirst(t *testing.T) {
	const nodes = 12
	var devices [][]attribute
	for range nodes {
		devices = append(devices, []attribute{{}, {}})
	}
	q := withPods(rails(devices...), 2*(nodes-1)+1)
	for i := range q.Pods {
		q.Pods[i].Kind = fmt.Sprint("easy-", i%2)
	}
	only(&q, len(q.Pods)-1, 0, 2)
	q.Budget = 20_000
	if r := ask(t, q); r.Verdict != allocator.Satisfiable {
		t.Errorf("%v with %d pods after %d steps", r.Verdict, r.Placed(), r.Steps)
	}
}

// A pod that watches devices by admin access takes none from a pod beside it, wherever it is in the list. The pods are planned
// together, as the first of them would take a device of the node that the others need.
func TestAdminAccessBesideOthers(t *testing.T) {
	for _, watching := range []int{1, 2} {
		q := withPods(rails([]attribute{{}, {}}, []attribute{{}}), 3)
		for _, pod := range []int{1, 2} {
			only(&q, pod, 0, 2)
		}
		q.Pods[watching].Variants[0][0].Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
		if r := ask(t, q); r.Verdict != allocator.Satisfiable || devicesIn(r) != "node-1/device-0 node-0/device-0 node-0/device-0" {
			t.Errorf("pod %d watches: %v: %s", watching, r.Verdict, devicesIn(r))
		} else if r.Steps > 100 { // 276 where another answer has to be looked for
			t.Errorf("pod %d watches: %d steps", watching, r.Steps)
		}
	}
}
