// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

func withPriority(pod *corev1.Pod, priority int32) *corev1.Pod {
	pod.Spec.Priority = ptr.To(priority)
	return pod
}

// running adds a node with pods on it, which hold the claims they refer to.
func running(w *world, name string, pods ...*corev1.Pod) fwk.NodeInfo {
	for _, pod := range pods {
		pod.Spec.NodeName = name
	}
	w.addNode(node(name), pods...)
	return w.nodes[len(w.nodes)-1]
}

func (a *attempt) wrap(pod *corev1.Pod) fwk.PodInfo {
	a.t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		a.t.Fatal(err)
	}
	return info
}

// Filter says that evicting pods can help exactly where it can.
func TestEvictionHelps(t *testing.T) {
	low, same := withPriority(podWith("low", "of-low"), 1), withPriority(podWith("same", "of-same"), 5)
	sharer := withPriority(podWith("sharer", "of-both"), 1)
	w := newWorld(t, setting{objects: []runtime.Object{
		gpuClass(), gpus("a", 1), gpus("b", 1), gpus("c", 1), gpus("d", 1), gpus("e", 2), gpuClaim("wanted", 1), gpuClaim("wanted-2", 2),
		reservedBy(held(gpuClaim("of-low", 1), "a", "gpu-0"), low),
		reservedBy(held(gpuClaim("of-same", 1), "b", "gpu-0"), same),
		reservedBy(held(gpuClaim("of-both", 1), "c", "gpu-0"), sharer, same),
		held(gpuClaim("idle", 1), "d", "gpu-0"),
	}})
	running(w, "a", low)
	running(w, "b", same)
	running(w, "c", sharer)
	running(w, "d")
	running(w, "e")
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		node int
		code fwk.Code
	}{
		{"a pod of lower priority has it", withPriority(podWith("p", "wanted"), 5), 0, fwk.Unschedulable},
		{"one of the same priority has it", withPriority(podWith("p", "wanted"), 5), 1, fwk.UnschedulableAndUnresolvable},
		{"one of the same priority uses it, too", withPriority(podWith("p", "wanted"), 5), 2, fwk.UnschedulableAndUnresolvable},
		{"no pod uses it", withPriority(podWith("p", "wanted"), 5), 3, fwk.UnschedulableAndUnresolvable},
		{"it is free", withPriority(podWith("p", "wanted"), 5), 4, fwk.Success},
		{"not even all of it is enough", withPriority(podWith("p", "wanted-2"), 5), 0, fwk.UnschedulableAndUnresolvable},
		{"the pod never preempts", never(withPriority(podWith("p", "wanted"), 5)), 0, fwk.UnschedulableAndUnresolvable},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := w.attempt(test.pod)
			expect(t, a.preFilter(), fwk.Success, "")
			expect(t, a.filter(test.node), test.code, "")
		})
	}
}

func never(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	return pod
}

// Removing pods frees what they alone use, adding them back takes it again, and neither
// shows in the cycle that was cloned.
func TestPodsRemovedAndAdded(t *testing.T) {
	one, two := podWith("one", "shared", "own"), podWith("two", "shared")
	w := newWorld(t, setting{objects: []runtime.Object{
		gpuClass(), gpus("a", 3), gpuClaim("wanted", 3), gpuClaim("wanted-1", 1),
		reservedBy(held(gpuClaim("shared", 2), "a", "gpu-0", "gpu-1"), one, two),
		reservedBy(held(gpuClaim("own", 1), "a", "gpu-2"), one),
	}})
	info := running(w, "a", one, two)
	state := func(claim string) (*attempt, *attempt) {
		a := w.attempt(withPriority(podWith("p", claim), 5))
		expect(t, a.preFilter(), fwk.Success, "")
		return a, &attempt{world: w, pod: a.pod, state: a.state.Clone()}
	}
	remove := func(a *attempt, pod *corev1.Pod) {
		expect(t, w.plugin.RemovePod(w.ctx, a.state, a.pod, a.wrap(pod), info), fwk.Success, "")
	}
	add := func(a *attempt, pod *corev1.Pod) {
		expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(pod), info), fwk.Success, "")
	}
	a, clone := state("wanted")
	remove(clone, one)
	if clone.filter(0).IsSuccess() {
		t.Error("a claim came free that another pod uses")
	}
	remove(clone, two)
	expect(t, clone.filter(0), fwk.Success, "")
	add(clone, one)
	if clone.filter(0).IsSuccess() {
		t.Error("a pod that was added back does not have its devices")
	}
	if a.filter(0).IsSuccess() {
		t.Error("what was tried on a clone shows in the cycle")
	}
	if status := w.plugin.Reserve(w.ctx, a.state, a.pod, "a"); status.IsSuccess() {
		t.Error("devices were reserved that are free only in a clone")
	}
	_, clone = state("wanted-1")
	remove(clone, one)
	expect(t, clone.filter(0), fwk.Success, "")
	twin := &attempt{world: w, pod: clone.pod, state: clone.state.Clone()}
	add(twin, one)
	expect(t, clone.filter(0), fwk.Success, "")
	if twin.filter(0).IsSuccess() {
		t.Error("a clone of a clone is the same")
	}
}

// A nominated pod whose claim is allocated already, or is the pod's own, needs nothing set aside.
func TestNominatedPodsThatNeedNothing(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		gpuClass(), gpus("a", 3), held(gpuClaim("allocated", 1), "a", "gpu-0"), gpuClaim("wanted", 2), gpuClaim("huge", 3),
	}})
	info := running(w, "a")
	for _, nominated := range []string{"allocated", "wanted"} {
		a := w.attempt(podWith("p", "wanted"))
		expect(t, a.preFilter(), fwk.Success, "")
		expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(podWith("n", nominated)), info), fwk.Success, "")
		expect(t, a.filter(0), fwk.Success, "")
	}
	a := w.attempt(podWith("p", "huge"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(podWith("n", "allocated")), info), fwk.Success, "")
	if a.filter(0).IsSuccess() {
		t.Error("a device that is in use was given away")
	}
}

// The devices of a nominated pod are not given away, also while its victims still hold them.
func TestNominatedPodsKeepDevices(t *testing.T) {
	victim := podWith("victim", "of-victim")
	victim.DeletionTimestamp = &metav1.Time{}
	w := newWorld(t, setting{objects: []runtime.Object{
		gpuClass(), gpus("a", 3), gpuClaim("nominated", 2), gpuClaim("wanted", 2), gpuClaim("wanted-1", 1), gpuClaim("huge", 9),
		reservedBy(held(gpuClaim("of-victim", 1), "a", "gpu-0"), victim),
	}})
	info := running(w, "a", victim)
	for claim, fits := range map[string]bool{"wanted": false, "wanted-1": true} {
		a := w.attempt(podWith("p", claim))
		expect(t, a.preFilter(), fwk.Success, "")
		clone := &attempt{world: w, pod: a.pod, state: a.state.Clone()}
		expect(t, w.plugin.AddPod(w.ctx, clone.state, clone.pod, clone.wrap(podWith("n", "nominated")), info), fwk.Success, "")
		if got := clone.filter(0).IsSuccess(); got != fits {
			t.Errorf("claim %s beside the nominated pod: %v, want %v", claim, got, fits)
		}
		expect(t, a.filter(0), fwk.Success, "")
	}
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(podWith("n", "huge")), info), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")
}
