// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, manifest string) *Controller {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	c, unknown, err := Read(object.GroupVersionKind(), object)
	if err != nil || len(unknown) > 0 || c == nil {
		t.Fatalf("read %s: %v, unknown fields %v, error %v", manifest, c, unknown, err)
	}
	return c
}

// No pod is lost: generated names are short, and another one is generated if a name is taken.
func TestEveryPodGetsAUniqueName(t *testing.T) {
	const count = MaxPods
	deployment := read(t, fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns}, spec: {replicas: %d, template: {spec: {containers: []}}}}", count))
	job := read(t, fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: ns}, spec: {parallelism: %d, template: {spec: {containers: []}}}}", count))
	seen := make(map[string]bool)
	for _, pod := range Expand([]*Controller{deployment, job}, nil, nil) {
		if seen[pod.Name] || pod.Namespace != "ns" || metav1.GetControllerOf(pod) == nil {
			t.Errorf("pod %s/%s: known before %v, owners %v", pod.Namespace, pod.Name, seen[pod.Name], pod.OwnerReferences)
		}
		seen[pod.Name] = true
	}
	if len(seen) != 2*count {
		t.Errorf("%d pods are made, want %d", len(seen), 2*count)
	}
}

// The pods have the same names each time, so that what is made of the same objects twice can be compared.
func TestNamesStay(t *testing.T) {
	deployment := read(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns}, spec: {replicas: 3, template: {spec: {containers: []}}}}")
	daemons := read(t, "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: s, namespace: ns}, spec: {template: {spec: {containers: []}}}}")
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	names := func() (list []string) {
		for _, pod := range Expand([]*Controller{deployment, daemons}, nil, nodes) {
			list = append(list, pod.Name)
		}
		return list
	}
	if first, again := names(), names(); len(first) != 5 || !slices.Equal(first, again) {
		t.Errorf("%q, then %q", first, again)
	}
}

// A DaemonSet leaves out nodes that its pods do not tolerate or want, and each of its pods
// fits one node only.
func TestDaemonSet(t *testing.T) {
	c := read(t, "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: {containers: [], nodeSelector: {gpu: 'yes'}}}}}")
	node := func(name, label string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"gpu": label}}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	nodes := []*corev1.Node{
		node("plain", "yes"), node("unlabelled", "no"), node("cordoned", "yes", corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}),
		node("tainted", "yes", corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}),
		node("preferred", "yes", corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectPreferNoSchedule}),
	}
	var got []string
	for _, pod := range Expand([]*Controller{c}, nil, nodes) {
		term := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		got = append(got, term.MatchFields[0].Values[0])
	}
	if want := "[plain cordoned preferred]"; fmt.Sprint(got) != want {
		t.Errorf("pods on %v, want %s", got, want)
	}
}
