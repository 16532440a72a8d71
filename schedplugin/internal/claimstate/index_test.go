// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// A pod is told from another one of its name, and whether it waits, runs, or has left what it was allocated.
func TestIndex(t *testing.T) {
	ends := func(reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp = &metav1.Time{}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
		}
	}
	type state struct{ waits, running, left bool }
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   state
	}{
		"no node yet":                        {func(pod *corev1.Pod) { pod.Spec.NodeName = "" }, state{waits: true}},
		"on its node":                        {func(*corev1.Pod) {}, state{running: true}},
		"on another node":                    {func(pod *corev1.Pod) { pod.Spec.NodeName = "b" }, state{}},
		"another pod of the name":            {func(pod *corev1.Pod) { pod.UID = "later" }, state{left: true}},
		"another pod of the name that waits": {func(pod *corev1.Pod) { pod.UID, pod.Spec.NodeName = "later", "" }, state{left: true}},
		"another name":                       {func(pod *corev1.Pod) { pod.Name = "q" }, state{left: true}},
		"done":                               {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }, state{left: true}},
		"preempted":                          {ends(corev1.PodReasonPreemptionByScheduler), state{left: true}},
		"ending for another reason":          {ends(corev1.PodReasonTerminationByKubelet), state{}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}, Spec: corev1.PodSpec{NodeName: "a"}}
			asked, consumer := pod.DeepCopy(), PodConsumer(pod)
			test.change(pod)
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			index := Index{pods: corelisters.NewPodLister(indexer), synced: func() bool { return true }}
			if err := indexer.Add(pod); err != nil {
				t.Fatal(err)
			}
			got := state{index.Waits(types.NamespacedName{Namespace: "ns", Name: "p"}, "uid"), index.Running(asked), index.Left("ns", &consumer)}
			if got != test.want {
				t.Errorf("it is %+v, want %+v", got, test.want)
			}
			index.synced = func() bool { return false }
			if index.Running(asked) {
				t.Error("it runs, for what is known of all pods is not all there is")
			}
			for _, other := range []resourceapi.ResourceClaimConsumerReference{{Resource: "jobs"}, {APIGroup: "example.com", Resource: "pods"}} {
				other.Name, other.UID = consumer.Name, consumer.UID
				if index.Left("ns", &other) {
					t.Errorf("what is no pod has left: %v", other)
				}
			}
		})
	}
}

// The pods of a claim are those that name it, in its namespace.
func TestPodsOfClaim(t *testing.T) {
	index := Index{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"claims": claimKeys}), index: "claims"}
	for _, key := range []types.NamespacedName{{Namespace: "ns", Name: "names-it"}, {Namespace: "ns", Name: "names-another"}, {Namespace: "other", Name: "names-it"}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		for _, claim := range []string{"first", map[string]string{"names-it": "c", "names-another": "d"}[key.Name]} {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
		}
		if err := index.indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	found, err := index.Of(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	if want := []types.NamespacedName{{Namespace: "ns", Name: "names-it"}}; err != nil || !slices.Equal(found, want) {
		t.Errorf("pods %v, %v; want %v", found, err, want)
	}
}
