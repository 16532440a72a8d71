// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// A pod with a claim takes two writes: the finalizer, and the status with allocation and
// reservation. One that shares the claim takes one, and one that had it before none.
func TestPodsAreBound(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), node("b"), gpuClass(), gpus("b", 2), gpuClaim("train", 2)}})
	w.writes()
	first := podWith("first", "train")
	placed, status := w.attempt(first).place()
	expect(t, status, fwk.Success, "")
	if placed != "b" {
		t.Errorf("placed on %q", placed)
	}
	if got, want := devicesOf(w.claim("train")), []string{"b/gpu-0", "b/gpu-1"}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
	if got, want := w.writes(), map[string]int{"update resourceclaims": 1, "update resourceclaims/status": 1}; !maps.Equal(got, want) {
		t.Errorf("writes %v, want %v", got, want)
	}
	_, status = w.attempt(podWith("second", "train")).place()
	expect(t, status, fwk.Success, "")
	if got, want := w.writes(), map[string]int{"update resourceclaims/status": 1}; !maps.Equal(got, want) {
		t.Errorf("writes for the second pod %v, want %v", got, want)
	}
	if got := len(w.claim("train").Status.ReservedFor); got != 2 {
		t.Errorf("reserved for %d, want 2", got)
	}
	_, status = w.attempt(first).place()
	expect(t, status, fwk.Success, "")
	if got := w.writes(); len(got) != 0 {
		t.Errorf("writes for a pod that has all it needs: %v", got)
	}
}

// From Reserve on devices are in use, and after Unreserve they are free.
func TestReservedDevicesAreInUse(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 3), gpuClaim("one", 2), gpuClaim("two", 2)}})
	one, two := w.attempt(podWith("one", "one")), podWith("two", "two")
	_, status := one.reserve()
	expect(t, status, fwk.Success, "")
	if _, status := w.attempt(two).reserve(); !status.IsRejected() {
		t.Errorf("the second pod got devices: %v", status)
	}
	expect(t, w.attempt(podWith("other", "one")).preFilter(), fwk.UnschedulableAndUnresolvable,
		"resource claim default/one is in the process of being allocated")
	w.plugin.Unreserve(w.ctx, one.state, one.pod, "a")
	w.plugin.Unreserve(w.ctx, one.state, one.pod, "a")
	_, status = w.attempt(two).place()
	expect(t, status, fwk.Success, "")
	if got, want := devicesOf(w.claim("two")), []string{"a/gpu-0", "a/gpu-1"}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
	if got := devicesOf(w.claim("one")); got != nil {
		t.Errorf("the pod that was given up holds %v", got)
	}
}

// An allocation that was reserved and then written is neither forgotten nor counted twice.
func TestLedgerFollowsClaims(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), gpuClass(), gpus("a", 2), gpuClaim("one", 1), gpuClaim("two", 1), gpuClaim("three", 1),
	}})
	for _, name := range []string{"one", "two"} {
		_, status := w.attempt(podWith(name, name)).place()
		expect(t, status, fwk.Success, "")
	}
	w.settle()
	if _, status := w.attempt(podWith("three", "three")).place(); !status.IsRejected() {
		t.Errorf("a third pod got one of two devices: %v", status)
	}
	freed := w.claim("two")
	if err := w.plugin.writer.Deallocate(w.ctx, freed); err != nil {
		t.Fatal(err)
	}
	w.settle()
	_, status := w.attempt(podWith("three", "three")).place()
	expect(t, status, fwk.Success, "")
	if got, want := devicesOf(w.claim("three")), []string{"a/gpu-1"}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
}

// Without dynamic resource allocation the plugin has nothing to say about a pod, at any extension point.
func TestSwitchedOff(t *testing.T) {
	w := newWorld(t, setting{
		features: feature.Features{EnableDRAPrioritizedList: true},
		objects:  []runtime.Object{node("a"), gpuClass(), gpus("a", 1), gpuClaim("wanted", 2)},
	})
	a, p := w.attempt(podWith("p", "wanted")), w.plugin
	expect(t, p.PreEnqueue(w.ctx, a.pod), fwk.Success, "")
	if events, err := p.EventsToRegister(w.ctx); err != nil || events != nil {
		t.Errorf("events %v, error %v", events, err)
	}
	if signed, status := p.SignPod(w.ctx, a.pod); signed != nil || !status.IsSuccess() {
		t.Errorf("it signs %v: %v", signed, status)
	}
	expect(t, a.preFilter(), fwk.Skip, "")
	other := a.wrap(podWith("other", "wanted"))
	expect(t, p.AddPod(w.ctx, a.state, a.pod, other, w.nodes[0]), fwk.Success, "")
	expect(t, p.RemovePod(w.ctx, a.state, a.pod, other, w.nodes[0]), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")
	_, status := p.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.Unschedulable, "")
	_, status = p.PodGroupPostFilter(w.ctx, nil, nil, nil)
	expect(t, status, fwk.Unschedulable, "")
	if score, status := p.Score(w.ctx, a.state, a.pod, w.nodes[0]); score != 0 || !status.IsSuccess() {
		t.Errorf("score %d: %v", score, status)
	}
	expect(t, p.Reserve(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	p.Unreserve(w.ctx, a.state, a.pod, "a")
	_, status = p.PreBindPreFlight(w.ctx, a.state, a.pod, "a")
	expect(t, status, fwk.Skip, "")
	expect(t, p.PreBind(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	if allocation := w.claim("wanted").Status.Allocation; allocation != nil {
		t.Errorf("allocation %v", allocation)
	}
}
