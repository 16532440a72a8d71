// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A claim that is allocated on other nodes is deallocated only if the pod would get the devices of its other claims.
func TestClaimsAreNotDeallocatedInVain(t *testing.T) {
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

// A plan has devices for all its pods, so that none are set aside for them. They are set aside for nominated pods outside of the plan.
func TestPlansNeedNothingSetAside(t *testing.T) {
	w, pods := gangOf(t, []string{"one", "two"}, append(parts("a"), roomy("a"),
		partClaim("one", "whole", "half"), partClaim("two", "whole", "half"), partClaim("strange", "whole", "half"))...)
	first := framework.NewCycleState()
	unplanned, _ := together(w, first, pods[0])
	expect(t, unplanned.preFilter(), fwk.Success, "")
	if _, status := w.giveUp(first, pods); !status.IsRejected() {
		t.Fatal(status)
	}
	a, _ := together(w, framework.NewCycleState(), pods[0])
	expect(t, a.preFilter(), fwk.Success, "")
	clone := &attempt{world: w, pod: a.pod, state: a.state.Clone()}
	expect(t, w.plugin.AddPod(w.ctx, clone.state, a.pod, a.wrap(pods[1]), w.nodes[0]), fwk.Success, "")
	expect(t, clone.filter(0), fwk.Success, "")
	expect(t, w.plugin.AddPod(w.ctx, clone.state, a.pod, a.wrap(podWith("stranger", "strange")), w.nodes[0]), fwk.Success, "")
	expect(t, clone.filter(0), fwk.UnschedulableAndUnresolvable, "the devices that are free are set aside for pods which are nominated to the node")
}
