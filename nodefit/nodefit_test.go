// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodefit_test

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/nodefit"
)

func TestFits(t *testing.T) {
	tainted := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "hard", Effect: corev1.TaintEffectNoSchedule},
	}}}
	cordoned := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	tolerant := corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	selective := corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}
	labelled := &corev1.Node{}
	labelled.Labels = map[string]string{"zone": "a"}
	for _, test := range []struct {
		name string
		pod  corev1.PodSpec
		node *corev1.Node
		want bool
	}{
		{"no demands", corev1.PodSpec{}, &corev1.Node{}, true},
		{"taint", corev1.PodSpec{}, tainted, false},
		{"tolerated taint", tolerant, tainted, true},
		{"cordon", corev1.PodSpec{}, cordoned, false},
		{"tolerated cordon", tolerant, cordoned, true},
		{"node selector", selective, labelled, true},
		{"other label", selective, &corev1.Node{}, false},
	} {
		if got, err := nodefit.Fits(&corev1.Pod{Spec: test.pod}, test.node); got != test.want || err != nil {
			t.Errorf("%s: %t, %v; want %t", test.name, got, err, test.want)
		}
	}
	if taint := nodefit.Untolerated(&corev1.Pod{}, tainted); taint == nil || taint.Key != "hard" || nodefit.IsCordon(taint) {
		t.Errorf("the taint that is not tolerated is %v", taint)
	}
	if taint := nodefit.Untolerated(&corev1.Pod{}, cordoned); !nodefit.IsCordon(taint) {
		t.Errorf("the taint of a cordoned node is %v", taint)
	}
}

// An affinity that cannot be understood is an error, not a no.
func TestFitsWithBrokenAffinity(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Near", Values: []string{"a"}}}}},
	}}}
	if _, err := nodefit.Fits(pod, &corev1.Node{}); err == nil {
		t.Error("no error")
	}
}

func TestNeeds(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	needs := nodefit.Needs(pod)
	if cpu, pods := needs[corev1.ResourceCPU], needs[corev1.ResourcePods]; cpu.Value() != 2 || pods.Value() != 1 {
		t.Errorf("needs: %v", needs)
	}
	if nodefit.Occupies(pod) {
		t.Error("a pod without a node occupies one")
	}
	pod.Spec.NodeName = "n"
	if !nodefit.Occupies(pod) {
		t.Error("a pod on a node occupies none")
	}
	if pod.Status.Phase = corev1.PodSucceeded; nodefit.Occupies(pod) {
		t.Error("a pod that has ended occupies its node")
	}
}

// A pod needs what kube-scheduler adds up from spec and status, whether or not these agree.
func TestNeedsCountsWhatTheStatusSays(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 29))
	list := func() corev1.ResourceList {
		made := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if n := random.IntN(5); n > 1 {
				made[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
			}
		}
		return made
	}
	plain := 0
	for range 5000 {
		pod := &corev1.Pod{}
		for range 1 + random.IntN(3) {
			c := corev1.Container{Name: string(rune('a' + random.IntN(3)))}
			c.Resources.Requests = list()
			status := corev1.ContainerStatus{Name: c.Name}
			for _, list := range []corev1.ResourceList{list(), c.Resources.Requests} {
				if random.IntN(3) == 0 {
					status.AllocatedResources = list
				}
				if random.IntN(3) == 0 {
					status.Resources = &corev1.ResourceRequirements{Requests: list}
				}
			}
			if random.IntN(3) > 0 {
				pod.Spec.Containers = append(pod.Spec.Containers, c)
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
				continue
			}
			if random.IntN(2) == 0 {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
		}
		if random.IntN(4) == 0 {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list()}
		}
		if random.IntN(4) == 0 {
			pod.Status.Resources = &corev1.ResourceRequirements{Requests: list()}
		}
		if random.IntN(2) == 0 {
			pod.Status.AllocatedResources = list()
		}
		if random.IntN(4) == 0 {
			pod.Spec.Overhead = list()
		}
		if random.IntN(4) == 0 {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: []string{corev1.PodReasonInfeasible, corev1.PodReasonDeferred}[random.IntN(2)]}}
		}
		want := podresources.PodRequests(pod, podresources.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
		if apiequality.Semantic.DeepEqual(want, podresources.PodRequests(pod, podresources.PodResourcesOptions{})) {
			plain++
		}
		want[corev1.ResourcePods] = resource.MustParse("1")
		if got := nodefit.Needs(pod); !apiequality.Semantic.DeepEqual(got, want) {
			t.Fatalf("needs %v, want %v: %v", got, want, pod)
		}
	}
	if plain < 500 || plain > 4500 {
		t.Errorf("of 5000 pods, %d have a status that makes no difference", plain)
	}
}

// Pods that Fits may tell apart have different keys, others may share one.
func TestKey(t *testing.T) {
	key := func(change func(*corev1.Pod)) string {
		pod := &corev1.Pod{}
		change(pod)
		return nodefit.Key(pod)
	}
	keys := map[string]string{}
	for name, change := range map[string]func(*corev1.Pod){
		"nothing":    func(*corev1.Pod) {},
		"selector":   func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} },
		"toleration": func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} },
		"affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		},
	} {
		k := key(change)
		if other, known := keys[k]; known {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[k] = name
	}
	if key(func(p *corev1.Pod) { p.Name, p.Labels = "p", map[string]string{"a": "b"} }) != key(func(*corev1.Pod) {}) {
		t.Error("a label, which is not read, is part of the key")
	}
}
