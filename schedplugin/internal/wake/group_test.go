// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// A pod is worth another attempt when its own group asks for something else of the devices.
func TestGroupUpdates(t *testing.T) {
	group := func(change func(*schedulingapi.PodGroup)) *schedulingapi.PodGroup {
		g := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", Annotations: map[string]string{extension.Annotation: "this"}}}
		change(g)
		return g
	}
	before, other := group(func(*schedulingapi.PodGroup) {}), func(g *schedulingapi.PodGroup) { g.Annotations[extension.Annotation] = "that" }
	of := func(name *string) *corev1.Pod {
		pod := podWith("p")
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: name}
		return pod
	}
	for name, test := range map[string]struct {
		pod           *corev1.Pod
		before, after any
		want          bool
	}{
		"it asks for something else": {of(ptr.To("g")), before, group(other), true},
		"it asks for something now":  {of(ptr.To("g")), group(func(g *schedulingapi.PodGroup) { g.Annotations = nil }), before, true},
		"something else changes":     {of(ptr.To("g")), before, group(func(g *schedulingapi.PodGroup) { g.Annotations["a"] = "b" }), false},
		"another group":              {of(ptr.To("h")), before, group(other), false},
		"another namespace":          {of(ptr.To("g")), before, group(func(g *schedulingapi.PodGroup) { other(g); g.Namespace = "other" }), false},
		"a pod without a group":      {podWith("p"), before, group(other), false},
		"a pod of a composite group": {of(nil), before, group(other), false},
		"the group is new":           {of(ptr.To("g")), nil, group(other), false},
		"the group is gone":          {of(ptr.To("g")), before, nil, false},
	} {
		if got := hintOf(t, afterGroupUpdate, test.pod, test.before, test.after); got != test.want {
			t.Errorf("%s: queued %t, want %t", name, got, test.want)
		}
	}
	if said, err := afterGroupUpdate(klog.Background(), of(ptr.To("g")), nil, podWith("p")); said != fwk.Queue || err == nil {
		t.Errorf("something that is no group: hint %v, error %v", said, err)
	}
}

// An event of a claim concerns all pods if devices come free or may have. Else it concerns those that refer to the claim, and
// the one that it was made for. If the claim got devices, one of these may have been an error for other pods.
func TestPodsConcernedByClaim(t *testing.T) {
	plain, taken := claimOf("mine"), allocated(claimOf("mine"))
	made := extended(claimOf("made"), podWith("owner"))
	template := made.DeepCopy()
	template.Annotations = nil
	for name, test := range map[string]struct {
		before, after any
		all           bool
		pods          []string
	}{
		"created":                      {nil, plain, false, []string{"refers"}},
		"changed":                      {plain, plain, false, []string{"refers"}},
		"allocated":                    {plain, taken, false, []string{"refers", "unjudged"}},
		"created with devices":         {nil, taken, false, []string{"refers", "unjudged"}},
		"stays allocated":              {taken, taken, false, []string{"refers"}},
		"deallocated":                  {taken, plain, true, nil},
		"deleted with devices":         {taken, nil, true, nil},
		"deleted without":              {plain, nil, false, []string{"refers"}},
		"deleted unseen":               {cache.DeletedFinalStateUnknown{Obj: plain}, nil, true, nil},
		"made for extended resources":  {nil, made, false, []string{"owner"}},
		"one of these is deleted":      {made, nil, false, []string{"owner"}},
		"made from a template":         {nil, template, false, nil},
		"somebody else's is allocated": {claimOf("other"), allocated(claimOf("other")), false, []string{"unjudged"}},
	} {
		q := newQueue(t)
		q.Changed = func(any, bool) {}
		q.add(t, podWith("refers", "mine"), podWith("unjudged"), podWith("another", "not-mine"))
		q.Endings.End(podWith("unjudged"), refusal.Attempt{Refusals: []*refusal.Refusal{{Reason: "no such key"}}})
		q.Endings.End(podWith("gone"), refusal.Attempt{Refusals: []*refusal.Refusal{{Reason: "no such key"}}})
		got, err := q.podsConcernedByClaim(klog.Background(), test.before, test.after)
		if err != nil {
			t.Fatal(err)
		}
		var pods []string
		for _, pod := range got.Pods {
			if pod != (types.NamespacedName{Namespace: "default", Name: pod.Name}) {
				t.Errorf("%s: pod %v", name, pod)
			}
			pods = append(pods, pod.Name)
		}
		if slices.Sort(pods); got.AllPods != test.all || !slices.Equal(pods, test.pods) {
			t.Errorf("%s: all pods %t, pods %q; want %t, %q", name, got.AllPods, pods, test.all, test.pods)
		}
	}
}

// A pod that evicted others waits for those on its node, and for those of lower priority that were preempted wherever they are.
func TestVictimOf(t *testing.T) {
	preemptor := podWith("p")
	preemptor.Spec.Priority = ptr.To[int32](5)
	nominated := preemptor.DeepCopy()
	nominated.Status.NominatedNodeName = "a"
	gone := func(node string, priority int32, preempted bool) *corev1.Pod {
		pod := on(podWith("gone"), node)
		pod.Spec.Priority, pod.DeletionTimestamp = &priority, &metav1.Time{}
		if preempted {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		}
		return pod
	}
	for name, test := range map[string]struct {
		preemptor, gone *corev1.Pod
		want            bool
	}{
		"on its node":               {nominated, gone("a", 9, false), true},
		"on another node":           {nominated, gone("b", 1, false), false},
		"on no node":                {preemptor, gone("", 1, false), false},
		"preempted, lower":          {preemptor, gone("b", 4, true), true},
		"preempted, the same":       {preemptor, gone("b", 5, true), false},
		"preempted, higher":         {nominated, gone("b", 6, true), false},
		"lower, and ends by itself": {preemptor, gone("b", 4, false), false},
	} {
		if mayBeVictimOf(test.preemptor, test.gone) != test.want {
			t.Errorf("%s: victim %t", name, !test.want)
		}
	}
}

// Devices of a pod that ran are in a claim. Those of one that was never bound may not be.
func TestNeverBound(t *testing.T) {
	q := newQueue(t)
	q.claims["default/free"], q.claims["default/held"], q.claims["default/pending"] = claimOf("free"), allocated(claimOf("held")), claimOf("pending")
	q.pending["pending"] = &resourceapi.AllocationResult{}
	made := asking(podWith("p"), fromDevices)
	made.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "held"}
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		phase corev1.PodPhase
		want  bool
	}{
		"its claim is free":                {podWith("p", "free"), corev1.PodPending, true},
		"no phase":                         {podWith("p", "free"), "", true},
		"it ran":                           {podWith("p", "free"), corev1.PodRunning, false},
		"it is done":                       {podWith("p", "free"), corev1.PodSucceeded, false},
		"one of its claims is free":        {podWith("p", "held", "pending", "free"), corev1.PodPending, true},
		"its claims hold devices":          {podWith("p", "held", "pending"), corev1.PodPending, false},
		"one of its claims is gone":        {podWith("p", "held", "gone"), corev1.PodPending, true},
		"extended resources, no claim yet": {asking(podWith("p", "held"), fromDevices), corev1.PodPending, true},
		"extended resources, with a claim": {made, corev1.PodPending, false},
		"without devices":                  {podWith("p"), corev1.PodPending, false},
	} {
		if test.pod.Status.Phase = test.phase; q.neverBound(test.pod) != test.want {
			t.Errorf("%s: never bound %t", name, !test.want)
		}
	}
}
