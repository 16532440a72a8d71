// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// Reasons are short, name no node, and say what is missing.
func TestReasons(t *testing.T) {
	tainted := gpus("d", 2)
	tainted.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	incomplete := gpus("e", 2)
	incomplete.Spec.Pool.ResourceSliceCount = 2
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), node("b"), node("c"), node("d"), node("e"), node("f"), gpuClass(), gpus("b", 1), gpus("c", 4), gpus("f", 5), tainted, incomplete,
		gpuClaim("wanted", 2), gpuClaim("other", 1), held(gpuClaim("busy", 3), "c", "gpu-0", "gpu-1", "gpu-3"),
		held(gpuClaim("full", 5), "f", "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"),
	}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	for i, want := range []string{
		"request gpus wants 2 devices: the node has none",
		"request gpus wants 2 devices: the node has fewer",
		"request gpus wants 2 devices: too few left (the others: in use)",
		"request gpus wants 2 devices: too few left (the others: tainted)",
		"request gpus wants 2 devices: the node has none; it has incomplete pools",
		"request gpus wants 2 devices: too few left (the others: in use)",
	} {
		expect(t, a.filter(i), fwk.UnschedulableAndUnresolvable, want)
	}
	a = w.attempt(podWith("p", "wanted", "other"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "claim wanted: request gpus wants 2 devices: the node has none")
}

// A node with invalid devices, or on which the search is given up, does not exclude other nodes.
func TestBadNodeDoesNotExcludeOthers(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), node("b"), gpuClass(), gpus("a", 1), modelled(gpus("b", 1)), selecting(gpuClaim("wanted", 1)),
	}})
	a := w.attempt(podWith("p", "wanted"))
	placed, status := a.place()
	expect(t, status, fwk.Success, "")
	if placed != "b" {
		t.Errorf("placed on %q", placed)
	}
	if reason := a.filter(0).Message(); !strings.Contains(reason, "no such key") || strings.Contains(reason, "gpu-0") {
		t.Errorf("the reason does not tell what is wrong: %s", reason)
	}
	w = newWorld(t, setting{args: "filterBudget: 1", objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 8), gpuClaim("wanted", 8)}})
	a = w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "the search for devices was given up after as many steps as it may take")
}

func modelled(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	model := "H100"
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
	}
	return slice
}

func selecting(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["gpu.example.com"].model == "H100"`,
	}}}
	return claim
}

// Reasons leave out the names of nodes, not what looks like them.
func TestReasonsOfNodesWithShortNames(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), node("e"), node("claim"), gpuClass(), gpus("a", 1), gpus("e", 1), gpus("claim", 1), selecting(gpuClaim("wanted", 1)),
	}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	for at := range w.nodes {
		if reason := a.filter(at).Message(); !strings.HasPrefix(reason, "claim default/wanted: request gpus: selector 0: CEL expression `device.attributes[") || reason != a.filter(0).Message() {
			t.Errorf("node %s: %q", w.nodes[at].Node().Name, reason)
		}
	}
}

// Reasons are remembered from pod to pod, and name what each of them calls its own.
func TestReasonsAreRemembered(t *testing.T) {
	renamed := gpuClaim("renamed", 5)
	renamed.Spec.Devices.Requests[0].Name = "accelerators"
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 4), gpuClaim("first", 5), gpuClaim("second", 5), renamed}})
	for claim, want := range map[string]string{
		"first":   "request gpus wants 5 devices: the node has fewer",
		"second":  "request gpus wants 5 devices: the node has fewer",
		"renamed": "request accelerators wants 5 devices: the node has fewer",
	} {
		a := w.attempt(podWith(claim, claim))
		expect(t, a.preFilter(), fwk.Success, "")
		expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, want)
	}
	if n := w.plugin.reasons.Len(); n != 2 {
		t.Errorf("%d reasons are remembered, want one for each name of the request", n)
	}
}

// Reasons are few, whatever happens on a thousand nodes, and have no names.
func TestReasonsAreLimited(t *testing.T) {
	for name, test := range map[string]struct {
		slice func(node string, n int) *resourceapi.ResourceSlice
		claim func() *resourceapi.ResourceClaim
		args  string
		want  string
	}{
		"incomplete": {
			func(node string, n int) *resourceapi.ResourceSlice {
				slice := gpus(node, 1)
				slice.Spec.Pool.ResourceSliceCount = int64(2 + n%7)
				return slice
			},
			func() *resourceapi.ResourceClaim { return wanting(resourceapi.DeviceAllocationModeAll) }, "",
			"claim default/wanted: request gpus: asks for all devices, but a pool cannot be used",
		},
		"invalid": {
			func(node string, n int) *resourceapi.ResourceSlice {
				slice := gpus(node, 1)
				slice.Spec.Devices = append(slice.Spec.Devices, slice.Spec.Devices[0])
				return slice
			},
			func() *resourceapi.ResourceClaim { return wanting(resourceapi.DeviceAllocationModeAll) }, "",
			"claim default/wanted: request gpus: asks for all devices, but a pool cannot be used",
		},
		"undecided": {
			func(node string, n int) *resourceapi.ResourceSlice { return gpus(node, 8+n%50) },
			func() *resourceapi.ResourceClaim { return gpuClaim("wanted", 8) }, "filterBudget: 1", refusal.Undecided,
		},
		"error of a selector": {
			func(node string, n int) *resourceapi.ResourceSlice { return gpus(node, 1+n%5) },
			func() *resourceapi.ResourceClaim { return selecting(gpuClaim("wanted", 1)) }, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{gpuClass(), test.claim()}
			const nodes = 200
			for i := range nodes {
				name := fmt.Sprintf("node-%d", i)
				objects = append(objects, node(name), test.slice(name, i))
			}
			w := newWorld(t, setting{args: test.args, objects: objects})
			a := w.attempt(podWith("p", "wanted"))
			expect(t, a.preFilter(), fwk.Success, "")
			reasons := sets.New[string]()
			for i := range nodes {
				status := a.filter(i)
				expect(t, status, fwk.UnschedulableAndUnresolvable, test.want)
				reasons.Insert(status.Message())
			}
			if reasons.Len() != 1 {
				t.Errorf("%d reasons, such as %v", reasons.Len(), sets.List(reasons)[:min(3, reasons.Len())])
			}
			for reason := range reasons {
				if strings.Contains(reason, "node-") || strings.Contains(reason, "gpu-") {
					t.Errorf("reason %q has a name", reason)
				}
			}
			_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
			code := fwk.Unschedulable
			if name == "undecided" { // no other pod is preempted
				code = fwk.UnschedulableAndUnresolvable
			}
			expect(t, status, code, "")
			if note := <-w.events; !strings.Contains(note, "200 nodes (node-0, node-1, node-10, …): ") {
				t.Errorf("the event does not say of which nodes it is true: %s", note)
			}
		})
	}
}

func wanting(mode resourceapi.DeviceAllocationMode) *resourceapi.ResourceClaim {
	claim := gpuClaim("wanted", 0)
	claim.Spec.Devices.Requests[0].Exactly.AllocationMode = mode
	return claim
}

// Devices that are free, but set aside for a nominated pod, are not in use. An Event tells.
func TestSetAsideIsExplained(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 2), gpuClaim("nominated", 2), gpuClaim("wanted", 1)}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	clone := &attempt{world: w, pod: a.pod, state: a.state.Clone()}
	expect(t, w.plugin.AddPod(w.ctx, clone.state, clone.pod, clone.wrap(podWith("n", "nominated")), w.nodes[0]), fwk.Success, "")
	expect(t, clone.filter(0), fwk.UnschedulableAndUnresolvable, refusal.SetAside)
	_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.Unschedulable, "")
	if note := <-w.events; !strings.Contains(note, "1 node (a): "+refusal.SetAside) {
		t.Errorf("the event does not say that devices are set aside: %s", note)
	}
}

// If a plugin before this one rejected the pod, PostFilter does nothing.
func TestNoState(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 2), gpuClaim("wanted", 1)}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.filter(0), fwk.Success, "")
	_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.Unschedulable, "")
	expect(t, w.plugin.Reserve(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	expect(t, w.plugin.PreBind(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	_, status = w.plugin.PreBindPreFlight(w.ctx, a.state, a.pod, "a")
	expect(t, status, fwk.Skip, "")
	_, status = w.plugin.Score(w.ctx, a.state, a.pod, w.nodes[0])
	expect(t, status, fwk.Success, "")
	expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(podWith("n", "wanted")), w.nodes[0]), fwk.Success, "")
	expect(t, w.plugin.RemovePod(w.ctx, a.state, a.pod, a.wrap(podWith("n", "wanted")), w.nodes[0]), fwk.Success, "")
	w.plugin.Unreserve(w.ctx, a.state, a.pod, "a")
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}
