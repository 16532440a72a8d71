// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"fmt"
	"testing"
	"time"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// owners are what pods belong to.
var owners = []*metav1.OwnerReference{
	nil,
	{APIVersion: "apps/v1", Kind: "DaemonSet"},
	{APIVersion: "apps/v1", Kind: "StatefulSet"},
	{APIVersion: "apps/v1", Kind: "ReplicaSet"},
	{APIVersion: "batch/v1", Kind: "Job"},
	{APIVersion: "v1", Kind: "Node"},
}

// podsOnNode are pods of a node with all owners, in all phases, that are being deleted or not.
func podsOnNode(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, owner := range owners {
		for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown} {
			for _, deleted := range []bool{false, true} {
				name := fmt.Sprintf("pod-%d", len(pods))
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
				pod.Spec.NodeName, pod.Status.Phase = node, phase
				if owner != nil {
					reference := *owner
					reference.Name, reference.UID, reference.Controller = "owner", "owner", new(true)
					pod.OwnerReferences = []metav1.OwnerReference{reference}
					if owner.Kind == "Node" {
						pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "mirror"}
					}
				}
				if deleted {
					pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
				}
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// ended tells whether a pod is one of a StatefulSet that has ended and is being deleted. It will be made again. Karpenter makes
// room for it, and Drain does not, since ended pods are not read. This lasts from the end of its containers to its removal.
func ended(pod *corev1.Pod) bool {
	return podutils.IsTerminal(pod) && podutils.IsTerminating(pod) && podutils.IsOwnedByStatefulSet(pod)
}

// TestReschedulable wants Dray to place the pods of a drained node that Karpenter would make room for, and no others.
func TestReschedulable(t *testing.T) {
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	placed := 0
	for _, pod := range podsOnNode("a") {
		state, err := simulate.Open(simulate.Cluster{Nodes: nodes, Pods: []*corev1.Pod{pod}}, simulate.Options{Features: allocator.AllFeatures()})
		if err != nil {
			t.Fatal(err)
		}
		result, err := state.Sim().Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "a")
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for range result.Placements() {
			got++
		}
		placed += got
		if want := podutils.IsReschedulable(pod) && !ended(pod); want != (got == 1) {
			t.Errorf("phase %s, deleted %t, owners %v: placed %d, Karpenter would: %t", pod.Status.Phase, pod.DeletionTimestamp != nil, pod.OwnerReferences, got, want)
		}
	}
	if placed == 0 {
		t.Error("no pod was placed")
	}
}
