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

// A DaemonSet makes pods for the nodes that have none of it yet, as its controller would. The node of a pod that waits
// stands in its affinity. A pod of which no node is known stands for one node, whichever.
func TestDaemonSetOfSomeNodes(t *testing.T) {
	c := read(t, "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, namespace: ns}, spec: {template: {spec: {containers: []}}}}")
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c", "d"} {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	on := func(name, node string) *corev1.Pod {
		return changed(ownedBy(name, "DaemonSet", "d", ""), func(pod *corev1.Pod) { pod.Spec.NodeName = node })
	}
	waits := func(name, node string) *corev1.Pod {
		return changed(on(name, ""), func(pod *corev1.Pod) { bindTo(pod, node) })
	}
	failed := changed(on("x", "a"), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
	elsewhere := changed(on("x", ""), func(pod *corev1.Pod) {
		bindTo(pod, "a")
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Operator = corev1.NodeSelectorOpNotIn
	})
	for name, tt := range map[string]struct {
		existing []*corev1.Pod
		want     string
	}{
		"none":                    {nil, "[a b c d]"},
		"one":                     {[]*corev1.Pod{on("x", "b")}, "[a c d]"},
		"one that waits":          {[]*corev1.Pod{waits("x", "c")}, "[a b d]"},
		"two of one node":         {[]*corev1.Pod{on("x", "b"), waits("y", "b")}, "[a c d]"},
		"one of no known node":    {[]*corev1.Pod{on("x", ""), on("y", "b")}, "[c d]"},
		"one of other nodes":      {[]*corev1.Pod{elsewhere}, "[b c d]"},
		"one of a node that went": {[]*corev1.Pod{on("x", "z")}, "[a b c d]"},
		"one that failed":         {[]*corev1.Pod{failed}, "[a b c d]"},
		"all":                     {[]*corev1.Pod{on("w", "a"), on("x", "b"), on("y", "c"), on("z", "d")}, "[]"},
		"of another DaemonSet":    {[]*corev1.Pod{changed(ownedBy("x", "DaemonSet", "e", ""), func(pod *corev1.Pod) { pod.Spec.NodeName = "a" })}, "[a b c d]"},
	} {
		got := []string{}
		for _, pod := range Expand([]*Controller{c}, tt.existing, nodes) {
			got = append(got, nodeOf(pod))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: pods for %v, want %s", name, got, tt.want)
		}
	}
}

// TestNodeOfPods has pods that are on a node, that are to be on one, and neither.
func TestNodeOfPods(t *testing.T) {
	to := func(node string) *corev1.Pod {
		pod := &corev1.Pod{}
		bindTo(pod, node)
		return pod
	}
	on := to("a")
	on.Spec.NodeName = "b"
	for want, pod := range map[string]*corev1.Pod{"a": to("a"), "b": on, "": {Spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}}} {
		if got := nodeOf(pod); got != want {
			t.Errorf("node %q, want %q", got, want)
		}
	}
}
