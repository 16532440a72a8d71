// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// A claim that is allocated elsewhere is given up only if the pod would get the devices of its other claims without.
func TestNothingIsGivenUpInVain(t *testing.T) {
	for other, want := range map[string]string{"one": "deallocation of ResourceClaim completed", "nine": ""} {
		w := newWorld(t, setting{objects: []runtime.Object{
			node("a"), gpuClass(), gpus("a", 1), held(gpuClaim("elsewhere", 1), "b", "gpu-0"), gpuClaim("one", 1), gpuClaim("nine", 9),
		}})
		a := w.attempt(podWith("p", "elsewhere", other))
		expect(t, a.preFilter(), fwk.Success, "")
		if status := a.filter(0); status.IsSuccess() {
			t.Error("a node suits that does not reach the devices of a claim")
		}
		_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
		if status.Code() != fwk.Unschedulable || status.Message() != want {
			t.Errorf("with claim %s: %v, want %q", other, status, want)
		}
		if kept := w.claim("elsewhere").Status.Allocation != nil; kept != (want == "") {
			t.Errorf("with claim %s: the claim keeps its devices: %v", other, kept)
		}
	}
}

// A plan has devices for all its pods, so that nothing is set aside for them. It is for pods that are not in the plan.
func TestPlansNeedNothingSetAside(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		gpuClass(), gpus("a", 2), gpuClaim("of-one", 1), gpuClaim("of-two", 1), gpuClaim("of-stranger", 1),
	}})
	info := running(w, "a")
	one, two, stranger := podWith("one", "of-one"), podWith("two", "of-two"), podWith("stranger", "of-stranger")
	plan := &groupPlan{pods: map[types.NamespacedName]*podPlan{
		nameOf(one): {node: "a", claims: map[types.UID]*resourceapi.AllocationResult{"of-one": held(gpuClaim("of-one", 1), "a", "gpu-0").Status.Allocation}},
		nameOf(two): {node: "a", claims: map[types.UID]*resourceapi.AllocationResult{"of-two": held(gpuClaim("of-two", 1), "a", "gpu-1").Status.Allocation}},
	}}
	a := w.attempt(one)
	expect(t, a.preFilter(), fwk.Success, "")
	c, err := cycleOf(a.state)
	if err != nil {
		t.Fatal(err)
	}
	c.planned, c.attempt = plan.pods[nameOf(one)], &groupAttempt{plan: plan}
	clone := &attempt{world: w, pod: one, state: a.state.Clone()}
	expect(t, w.plugin.AddPod(w.ctx, clone.state, one, a.wrap(two), info), fwk.Success, "")
	expect(t, clone.filter(0), fwk.Success, "")
	expect(t, w.plugin.AddPod(w.ctx, clone.state, one, a.wrap(stranger), info), fwk.Success, "")
	expect(t, clone.filter(0), fwk.UnschedulableAndUnresolvable, "devices that were planned for the pods of the group were taken meanwhile")
}
