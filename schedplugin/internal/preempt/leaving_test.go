// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// podsOnNodes is an index of pods.
func podsOnNodes(pods ...*corev1.Pod) *podIndex {
	index := &podIndex{pods: make(map[types.UID]*corev1.Pod)}
	for _, pod := range pods {
		index.pods[pod.UID] = pod
	}
	return index
}

// changed is a pod with some change.
func changed(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

// A claim is abandoned when all its consumers have left. That lasts if all of them are on nodes: then nothing changes without an
// event.
func TestAbandoned(t *testing.T) {
	done := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }
	preempted := func(pod *corev1.Pod) {
		deleted(pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
	}
	inPreBind := func(pod types.UID) (is, preempted bool) {
		return pod == "binds" || pod == "bound-no-more", pod == "bound-no-more"
	}
	index := podsOnNodes(podOf("binds"), podOf("bound-no-more"), podOf("runs"), podOf("runs-too"), changed(podOf("done"), done), changed(podOf("deleted"), deleted), changed(podOf("preempted"), preempted))
	client := fake.NewClientset()
	for _, pod := range []*corev1.Pod{podOf("waits"), changed(podOf("deleted"), deleted)} {
		pod.Namespace = "default"
		if err := client.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	known, err := claimstate.NewIndex(handle{factory: factory})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	for name, test := range map[string]struct {
		consumers          []string
		deleted            bool
		abandoned, lasting bool
	}{
		"idle":                                      {nil, false, false, true},
		"idle, and deleted":                         {nil, true, true, true},
		"of a pod that runs":                        {[]string{"runs"}, true, false, true},
		"of a pod that is done":                     {[]string{"done"}, false, true, true},
		"of one that was preempted":                 {[]string{"preempted"}, false, true, true},
		"of both":                                   {[]string{"done", "preempted"}, false, true, true},
		"of one that goes, and stays yet":           {[]string{"deleted"}, false, false, false},
		"of one in PreBind":                         {[]string{"binds"}, false, false, false},
		"of one that was preempted in PreBind":      {[]string{"bound-no-more", "done"}, false, true, false},
		"of one on no node that waits":              {[]string{"waits"}, false, false, false},
		"of one that is gone":                       {[]string{"gone"}, false, true, false},
		"of one that is gone, and one that is done": {[]string{"gone", "done"}, false, true, false},
		"of one that is done, and one that runs":    {[]string{"done", "runs"}, false, false, true},
		"of one that is gone, and one that runs":    {[]string{"gone", "runs"}, false, false, true},
		"of one that is gone, and one that waits":   {[]string{"gone", "waits"}, false, false, false},
	} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		if test.deleted {
			claim.DeletionTimestamp = &metav1.Time{}
		}
		for _, pod := range test.consumers {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod))
		}
		if abandoned, lasting := abandoned(index, known, claim, inPreBind); abandoned != test.abandoned || lasting != test.lasting {
			t.Errorf("%s: abandoned %t, lasting %t; want %t, %t", name, abandoned, lasting, test.abandoned, test.lasting)
		}
	}
}

// A claim in flight is abandoned if the pod that owns it was preempted in PreBind.
func TestAbandonedInFlight(t *testing.T) {
	inPreBind := func(pod types.UID) (is, preempted bool) { return true, pod == "preempted" }
	for owner, want := range map[string]bool{"": false, "binds": false, "preempted": true} {
		claim := &resourceapi.ResourceClaim{}
		if owner != "" {
			claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
		}
		if abandoned, lasting := abandoned(podsOnNodes(), claimstate.Index{}, claim, inPreBind); abandoned != want || lasting {
			t.Errorf("of %q: abandoned %t, lasting %t; want %t", owner, abandoned, lasting, want)
		}
	}
}

// A claim comes free if all its consumers are pods of lower priority.
func TestEvictsAll(t *testing.T) {
	of := func(name string, priority int32) *corev1.Pod {
		return changed(podOf(name), func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To(priority) })
	}
	index := podsOnNodes(of("low", 1), of("lower", 0), of("same", 5), of("high", 9))
	for name, test := range map[string]struct {
		consumers []string
		owner     string
		want      bool
	}{
		"lower":              {[]string{"low"}, "", true},
		"all are lower":      {[]string{"low", "lower"}, "high", true},
		"the same":           {[]string{"same"}, "", false},
		"higher":             {[]string{"high"}, "low", false},
		"one is the same":    {[]string{"low", "same"}, "", false},
		"one is on no node":  {[]string{"low", "gone"}, "", false},
		"nobody":             {nil, "", false},
		"its owner is lower": {nil, "low", true},
		"its owner is not":   {nil, "same", false},
		"its owner is gone":  {nil, "gone", false},
	} {
		claim := &resourceapi.ResourceClaim{}
		for _, pod := range test.consumers {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod))
		}
		if test.owner != "" {
			claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: test.owner, UID: types.UID(test.owner), Controller: ptr.To(true)}}
		}
		if allConsumersBelow(index, claim, 5) != test.want {
			t.Errorf("%s: all are evicted %t", name, !test.want)
		}
	}
}
