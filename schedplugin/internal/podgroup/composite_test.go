// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	alphaapi "k8s.io/api/scheduling/v1alpha3"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// assigned is a pod with a node.
type assigned struct {
	fwk.ProposedAssignment
	pod  *corev1.Pod
	node string
}

func (a assigned) GetPod() *corev1.Pod { return a.pod }
func (a assigned) GetNodeName() string { return a.node }

// groupOf is a group with one pod that has its name. Only a gang starts together.
func groupOf(name string, uid types.UID, gang bool) *framework.PodGroupInfo {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	if gang {
		group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 1}
	}
	return &framework.PodGroupInfo{
		Namespace: "default", Name: name, PodGroup: group,
		UnscheduledPods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}},
	}
}

// A composite group that failed is tried with plans for its gangs at once. It is not tried again until there is another gang.
func TestCompositeGroupIsTriedWithPlans(t *testing.T) {
	g := New(Hooks{})
	composite := func(children ...*framework.PodGroupInfo) *framework.PodGroupInfo {
		return &framework.PodGroupInfo{Namespace: "default", Name: "both", CompositePodGroup: &alphaapi.CompositePodGroup{}, Children: children}
	}
	for _, test := range []struct {
		name      string
		composite *framework.PodGroupInfo
		tried     int
	}{
		{"no gang", composite(groupOf("loose", "1", false)), 0},
		{"a gang", composite(groupOf("loose", "1", false), groupOf("gang", "2", true)), 1},
		{"the same gang", composite(groupOf("loose", "1", false), groupOf("gang", "2", true)), 0},
		{"a gang of the same name", composite(groupOf("gang", "3", true)), 1},
		{"another gang", composite(groupOf("gang", "3", true), composite(groupOf("other", "4", true))), 1},
	} {
		tried := 0
		pods := test.composite.GetUnscheduledPods()
		nominated, gangs := g.PlanEach(t.Context(), test.composite, func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
			tried++
			return &fwk.PodGroupAssignments{ProposedAssignments: []fwk.ProposedAssignment{assigned{pod: pods[0], node: "a"}}}, nil
		})
		if tried != test.tried || (nominated != nil) != (tried > 0) || len(gangs) > 0 {
			t.Errorf("%s: tried %d times, want %d, with %v and %v", test.name, tried, test.tried, nominated, gangs)
		}
		if nominated != nil && (len(nominated.NominatingInfos) != 1 || nominated.NominatingInfos[nameOf(pods[0])].NominatedNodeName != "a") {
			t.Errorf("%s: nominated %v", test.name, nominated.NominatingInfos)
		}
	}
}

// A trial that fails nominates no pods. What is known of the gangs is that of the last cycle with a plan.
func TestCompositeGroupFailsWithPlans(t *testing.T) {
	g := New(Hooks{})
	one, other := groupOf("one", "1", true), groupOf("other", "2", true)
	both := &framework.PodGroupInfo{CompositePodGroup: &alphaapi.CompositePodGroup{}, Children: []*framework.PodGroupInfo{one, other}}
	cycle := newCycle()
	cycle.attempts = []*attempt{{first: &Member{}, outlook: outlook{"0 of 1 pods", 0}}}
	nominated, gangs := g.PlanEach(t.Context(), both, func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		g.plannedGroupOf(nameOfGroup(other)).lastCycle = cycle
		return nil, fwk.NewStatus(fwk.Unschedulable)
	})
	if nominated != nil || len(gangs) != 1 || gangs[0].Group.GetName() != "other" || gangs[0].Cycle != cycle {
		t.Fatalf("%v, %v", nominated, gangs)
	}
	const want = "PodGroup other: 0 of 1 pods; the groups of a CompositePodGroup are planned one after the other, not together"
	if said, known := Outlooks(gangs); said != want || !known {
		t.Errorf("%q, %v", said, known)
	}
	if _, known := Outlooks(nil); known {
		t.Error("something is known of no group")
	}
}

// A pod by itself is answered as without a plan.
func TestPodByItself(t *testing.T) {
	var m *Member
	if reason, code := m.Plan(t.Context(), nil); reason != "" || code != fwk.Success {
		t.Errorf("%s %v", reason, code)
	}
	if m.Node() != "" || m.InPlanWith(&corev1.Pod{}) || m.WhyNotOn("a", nil, nil) != "" {
		t.Error("there is a plan")
	}
	if _, planned := m.Planned(nil, false); planned {
		t.Error("there are planned devices")
	}
	m.Placed("a")
	m.Forget()
	if m.Cycle().Shares("claim") || m.Cycle().Others("claim", "pod") != nil || m.Cycle().Undecided() {
		t.Error("it has a group")
	}
}
