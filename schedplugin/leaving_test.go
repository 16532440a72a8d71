// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// preempted is a pod that ends because it was evicted for another one.
func preempted(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = &metav1.Time{}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
	}}
	return pod
}

func nominatedTo(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Status.NominatedNodeName = node
	return pod
}

// A pod that preempted others does not preempt more while the devices of these are about to
// come free, and only then.
func TestPreemptorWaits(t *testing.T) {
	going, staying := preempted(podWith("going", "of-going")), podWith("staying", "of-staying")
	ending := podWith("ending", "of-ending")
	ending.DeletionTimestamp = &metav1.Time{}
	queued, err := framework.NewPodInfo(podWith("queued", "two"))
	if err != nil {
		t.Fatal(err)
	}
	untried, err := framework.NewPodInfo(podWith("untried", "two"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, setting{
		nominated: nominations{"a": {queued, untried}},
		objects: []runtime.Object{
			node("a"), node("b"), gpuClass(), gpus("a", 3), gpus("b", 2), going, staying, ending, gpuClaim("two", 2), gpuClaim("three", 3),
			reservedBy(held(gpuClaim("of-gone", 1), "a", "gpu-0"), podWith("gone")),
			reservedBy(held(gpuClaim("of-going", 1), "a", "gpu-1"), going),
			reservedBy(held(gpuClaim("of-staying", 1), "a", "gpu-2"), staying),
			reservedBy(held(gpuClaim("of-ending", 2), "b", "gpu-0", "gpu-1"), ending),
		},
	})
	w.plugin.endings.End(podWith("queued"), refusal.Attempt{})
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		plugin string
		waits  bool
	}{
		{"it is nominated", nominatedTo(podWith("p", "two"), "a"), Name, true},
		{"only the queue knows that it is", podWith("queued", "two"), Name, true},
		{"the queue says so of one that was never tried", podWith("untried", "two"), Name, false},
		{"it is not nominated", podWith("p", "two"), Name, false},
		{"it is nominated to a node that is gone", nominatedTo(podWith("p", "two"), "gone"), Name, false},
		{"that will not be enough", nominatedTo(podWith("p", "three"), "a"), Name, false},
		{"something else is missing, too", nominatedTo(podWith("p", "two"), "a"), "NodeResourcesFit", false},
		{"the devices are of a pod that ends on its own", nominatedTo(podWith("p", "two"), "b"), Name, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := w.attempt(test.pod)
			expect(t, a.preFilter(), fwk.Success, "")
			statuses := framework.NewNodeToStatus(make(map[string]*fwk.Status), fwk.NewStatus(fwk.Unschedulable))
			for i, info := range w.nodes {
				statuses.Set(info.Node().Name, a.filter(i).WithPlugin(test.plugin))
			}
			result, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, statuses)
			want := fwk.Unschedulable
			if test.waits {
				want = fwk.UnschedulableAndUnresolvable // ends PostFilter
			}
			expect(t, status, want, "")
			if result != nil {
				t.Errorf("the nomination is changed: %v", result)
			}
		})
	}
}

// Some victims of a pod may be gone before the scheduler sees that the last one is being deleted. Their
// devices, which are about to come free, count on the nominated node: the pod needs no victims on a second
// node.
func TestPreemptionGoesOn(t *testing.T) {
	last := withPriority(podWith("last", "of-last"), 1)
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), gpuClass(), gpus("a", 2), gpuClaim("two", 2), last,
		reservedBy(held(gpuClaim("of-gone", 1), "a", "gpu-0"), podWith("gone")),
		reservedBy(held(gpuClaim("of-last", 1), "a", "gpu-1"), last),
	}})
	onNode := running(w, "a", last)
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		now, then fwk.Code
	}{
		"nominated":     {nominatedTo(withPriority(podWith("p", "two"), 5), "a"), fwk.Unschedulable, fwk.Success},
		"not nominated": {withPriority(podWith("p", "two"), 5), fwk.UnschedulableAndUnresolvable, fwk.UnschedulableAndUnresolvable},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.attempt(test.pod)
			expect(t, a.preFilter(), fwk.Success, "")
			expect(t, a.filter(1), test.now, "")
			clone := &attempt{world: w, pod: a.pod, state: a.state.Clone()}
			expect(t, w.plugin.RemovePod(w.ctx, clone.state, a.pod, a.wrap(last), onNode), fwk.Success, "")
			if got := clone.filter(1).Code(); got != test.then {
				t.Errorf("without the last pod: %v, expected %v", got, test.then)
			}
			expect(t, w.plugin.AddPod(w.ctx, clone.state, a.pod, a.wrap(last), onNode), fwk.Success, "")
			if clone.filter(1).IsSuccess() {
				t.Error("the last pod need not go")
			}
		})
	}
}

// The devices of a nominated pod are not given away after its victims have gone, and before
// their claims are deallocated.
func TestNominatedPodsKeepDevicesOfGonePods(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), gpuClass(), gpus("a", 2), gpuClaim("nominated", 2), gpuClaim("wanted", 1),
		reservedBy(held(gpuClaim("of-victim", 1), "a", "gpu-0"), podWith("victim")),
	}})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")
	expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(podWith("n", "nominated")), w.nodes[0]), fwk.Success, "")
	if a.filter(0).IsSuccess() {
		t.Error("the pod got a device that the nominated pod waits for")
	}
}

// Pods that leave their node wake those that no claim event would.
func TestPodsThatLeave(t *testing.T) {
	of := func(name, claim string, node string) *corev1.Pod {
		pod := podWith(name, claim)
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		return pod
	}
	failedToBind := func(claim string) *corev1.Pod {
		pod := of("assumed", claim, "a")
		pod.Status.Phase = corev1.PodPending
		return pod
	}
	w := newWorld(t, setting{objects: []runtime.Object{gpuClass(), gpuClaim("idle", 1), held(gpuClaim("busy", 1), "a", "gpu-0")}})
	hint := registered(t, w, fwk.AssignedPod).QueueingHintFn
	waiting := withPriority(podWith("p", "idle"), 5)
	for _, test := range []struct {
		name      string
		pod, gone *corev1.Pod
		hint      fwk.QueueingHint
	}{
		{"its claim is deallocated later", waiting, of("other", "busy", "a"), fwk.QueueSkip},
		{"it was done, and its claim deallocated", waiting, of("other", "idle", "a"), fwk.QueueSkip},
		{"it was preempted", waiting, preempted(of("other", "busy", "a")), fwk.Queue},
		{"it was preempted by another", waiting, withPriority(preempted(of("other", "busy", "a")), 5), fwk.QueueSkip},
		{"it left the node of the nomination", nominatedTo(waiting.DeepCopy(), "a"), of("other", "busy", "a"), fwk.Queue},
		{"it left another node", nominatedTo(waiting.DeepCopy(), "a"), of("other", "busy", "b"), fwk.QueueSkip},
		{"it had no devices", nominatedTo(waiting.DeepCopy(), "a"), of("other", "", "a"), fwk.QueueSkip},
		{"it could not be bound", waiting, failedToBind("idle"), fwk.Queue},
		{"it could not be bound, but has its devices", waiting, failedToBind("busy"), fwk.QueueSkip},
		{"it could not be bound, and its claim is gone", waiting, failedToBind("none"), fwk.Queue},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.gone.Spec.ResourceClaims[0].Name == "" {
				test.gone.Spec.ResourceClaims = nil
			}
			got, err := hint(klog.Background(), test.pod, test.gone, nil)
			if err != nil || got != test.hint {
				t.Errorf("hint %v, error %v, want %v", got, err, test.hint)
			}
		})
	}
	if _, err := hint(klog.Background(), waiting, gpuClaim("idle", 1), nil); err == nil {
		t.Error("an event of something else is no error")
	}
}
