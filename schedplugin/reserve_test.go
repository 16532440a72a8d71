// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A pod of a group does not take over devices that another one got meanwhile for the claim of both, if its own node does not
// reach them.
func TestSharedClaimGoesElsewhere(t *testing.T) {
	w := gangWorld(t, node("a"), node("b"), gpus("a", 1), gpus("b", 1), gpuClaim("g", 1))
	group := framework.NewCycleState()
	one, _ := together(w, group, member("one"))
	two, _ := together(w, group, member("two"))
	for _, a := range []*attempt{one, two} {
		expect(t, a.preFilter(), fwk.Success, "")
		expect(t, a.filter(0), fwk.Success, "")
		expect(t, a.filter(1), fwk.Success, "")
	}
	expect(t, w.plugin.Reserve(w.ctx, one.state, one.pod, "a"), fwk.Success, "")
	status := w.plugin.Reserve(w.ctx, two.state, two.pod, "b")
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "claim default/g was allocated on other nodes than b meanwhile") {
		t.Errorf("reserved on another node: %v", status)
	}
}

// A claim that was deleted and made anew after Filter is another one. What that has is not the pod's.
func TestReplacedClaimIsNotTakenOver(t *testing.T) {
	w := gangWorld(t, node("a"), gpus("a", 2), gpuClaim("g", 1))
	one, _ := together(w, framework.NewCycleState(), member("one"))
	expect(t, one.preFilter(), fwk.Success, "")
	expect(t, one.filter(0), fwk.Success, "")
	claims := w.client.ResourceV1().ResourceClaims("default")
	if err := claims.Delete(w.ctx, "g", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	another := held(gpuClaim("g", 1), "a", "gpu-1")
	another.UID = "another"
	if _, err := claims.Create(w.ctx, another, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	expect(t, w.plugin.Reserve(w.ctx, one.state, one.pod, "a"), fwk.Success, "")
	status := w.plugin.PreBind(w.ctx, one.state, one.pod, "a")
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "claim default/g was replaced by another one meanwhile") {
		t.Errorf("bound with the devices of another claim: %v", status)
	}
}

// PreBind writes into the pod's status what its devices take of the node, and Unreserve removes it.
func TestUnreserveTakesBackWhatIsRecorded(t *testing.T) {
	pod := podWith("p", "wanted")
	w := accountingWorld(t, nil, withCPUs("a"), taking(gpus("a", 1)), gpuClaim("wanted", 1), pod)
	a := w.attempt(pod.DeepCopy())
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.Success, "")
	expect(t, w.plugin.Reserve(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	a.pod.Status.NodeAllocatableResourceClaimStatuses = a.accounted("a") // as the scheduler does when it assumes a pod
	expect(t, w.plugin.PreBind(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	if got := takenBy(w.pod("p")); got != "wanted: cpu 2" {
		t.Errorf("after PreBind the status says %q", got)
	}
	w.plugin.Unreserve(w.ctx, a.state, a.pod, "a")
	if got := takenBy(w.pod("p")); got != "" {
		t.Errorf("after Unreserve the status says %q", got)
	}
}

// A pod that is not bound after PreBind is no consumer of its claim. The allocation stays, as with the in-tree plugin.
func TestUnreserveGivesUpTheClaim(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), gpuClaim("wanted", 1)}})
	a := w.attempt(podWith("p", "wanted"))
	_, status := a.reserve()
	expect(t, status, fwk.Success, "")
	expect(t, w.plugin.PreBind(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	if status := w.claim("wanted").Status; status.Allocation == nil || len(status.ReservedFor) != 1 {
		t.Fatalf("after PreBind: %+v", status)
	}
	w.plugin.Unreserve(w.ctx, a.state, a.pod, "a")
	if status := w.claim("wanted").Status; status.Allocation == nil || len(status.ReservedFor) > 0 {
		t.Errorf("after Unreserve: %+v", status)
	}
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}
