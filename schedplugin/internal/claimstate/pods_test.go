// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
)

// A pod holds claims that it names, and one that was made for its extended resources.
func TestHoldsClaims(t *testing.T) {
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"none":     {corev1.Pod{}, false},
		"named":    {corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}}}, true},
		"extended": {corev1.Pod{Status: corev1.PodStatus{ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{}}}, true},
	} {
		if HoldsClaims(&test.pod) != test.want {
			t.Errorf("%s: holds claims %t", name, !test.want)
		}
	}
}

// A pod refers to claims by name, by what was generated for a template, and by what was made for its extended
// resources. All of them are in its namespace.
func TestRefersTo(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimName: ptr.To("named")}, {Name: "b", ResourceClaimTemplateName: ptr.To("template")}, {Name: "c", ResourceClaimTemplateName: ptr.To("later")},
	}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: ptr.To("generated")}}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "made"}
	for _, test := range []struct {
		namespace, name string
		want            bool
	}{
		{"ns", "named", true},
		{"ns", "generated", true},
		{"ns", "made", true},
		{"ns", "a", false},
		{"ns", "template", false},
		{"ns", "other", false},
		{"ns", "", false},
		{"other", "named", false},
		{"other", "made", false},
	} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.name}}
		if RefersTo(pod, claim) != test.want {
			t.Errorf("claim %s/%s: referred to %t", test.namespace, test.name, !test.want)
		}
	}
}

// refersTo is RefersTo by the names that Kubernetes lists.
func refersTo(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	for name := range resourceclaim.PodClaims(pod) {
		if pod.Namespace == claim.Namespace && name == claim.Name {
			return true
		}
	}
	return false
}

// podWithReferences draws a pod whose claims are named, made, not made yet, or not needed.
func podWithReferences(random *rand.Rand) *corev1.Pod {
	names := []string{"x", "y", "z"}
	draw := func() *string {
		if n := random.IntN(len(names) + 1); n < len(names) {
			return &names[n]
		}
		return nil
	}
	pod := new(corev1.Pod)
	for i := range random.IntN(4) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: draw(), ResourceClaimTemplateName: draw()})
	}
	for range random.IntN(4) {
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: fmt.Sprint(random.IntN(4)), ResourceClaimName: draw()})
	}
	if name := draw(); name != nil {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: *name}
	}
	return pod
}

func TestRefersToLikePodClaims(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refers := 0
	for range 5000 {
		pod, claim := podWithReferences(random), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		got := RefersTo(pod, claim)
		if got != refersTo(pod, claim) {
			t.Fatalf("refers %t: claims %+v, status %+v", got, pod.Spec.ResourceClaims, pod.Status)
		}
		if got {
			refers++
		}
	}
	if refers < 1000 || refers > 4000 {
		t.Errorf("%d of 5,000 pods refer to the claim", refers)
	}
}

// BenchmarkRefersTo is a question of the queue about a pod whose claim has not been made yet, beside the same by the names that Kubernetes lists.
func BenchmarkRefersTo(b *testing.B) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("later")}}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	for name, ask := range map[string]func(*corev1.Pod, *resourceapi.ResourceClaim) bool{"dray": RefersTo, "names": refersTo} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(pod, claim)
			}
		})
	}
}

// The claim for extended resources has an annotation, and the pod as its controller.
func TestMadeFor(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid"}}
	owner := metav1.OwnerReference{Name: "p", UID: "uid", Controller: ptr.To(true)}
	another, noController := owner, owner
	another.UID, noController.Controller = "before", nil
	for name, test := range map[string]struct {
		annotation string
		owner      metav1.OwnerReference
		want       bool
	}{
		"made for it":          {"true", owner, true},
		"made from a template": {"", owner, false},
		"says that it is not":  {"false", owner, false},
		"made for another one": {"true", another, false},
		"owned, not managed":   {"true", noController, false},
	} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{test.owner}}}
		if test.annotation != "" {
			claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: test.annotation}
		}
		if MadeFor(claim, pod) != test.want {
			t.Errorf("%s: made for the pod %t", name, !test.want)
		}
	}
}

// Devices come free with the allocation.
func TestFreed(t *testing.T) {
	without, with := &resourceapi.ResourceClaim{}, &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	for name, test := range map[string]struct {
		before, after *resourceapi.ResourceClaim
		want          bool
	}{
		"deallocated":       {with, without, true},
		"allocated":         {without, with, false},
		"stays allocated":   {with, with, false},
		"stays unallocated": {without, without, false},
	} {
		if Freed(test.before, test.after) != test.want {
			t.Errorf("%s: freed %t", name, !test.want)
		}
	}
}

// A pod needs its devices until it has ended, or ends for another one.
func TestLeaves(t *testing.T) {
	going := func(reason string, status corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: status, Reason: reason}},
		}}
	}
	staying := going(corev1.PodReasonPreemptionByScheduler, corev1.ConditionTrue)
	staying.DeletionTimestamp = nil
	for name, test := range map[string]struct {
		pod          corev1.Pod
		done, leaves bool
	}{
		"pending":                  {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, false, false},
		"running":                  {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, false, false},
		"succeeded":                {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, true, true},
		"failed":                   {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, true, true},
		"preempted":                {going(corev1.PodReasonPreemptionByScheduler, corev1.ConditionTrue), false, true},
		"not preempted":            {going(corev1.PodReasonPreemptionByScheduler, corev1.ConditionFalse), false, false},
		"evicted by the kubelet":   {going(corev1.PodReasonTerminationByKubelet, corev1.ConditionTrue), false, false},
		"preempted, not going yet": {staying, false, false},
	} {
		if Done(&test.pod) != test.done || Leaves(&test.pod) != test.leaves {
			t.Errorf("%s: done %t, leaves %t; want %t, %t", name, Done(&test.pod), Leaves(&test.pod), test.done, test.leaves)
		}
	}
}
