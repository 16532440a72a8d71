// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyapi "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dray-project/dray/cmd/dray/internal/input"
)

// For five running pods, a PodDisruptionBudget allows the disruptions that kube-controller-manager 1.37.2
// writes into its status.
func TestLimits(t *testing.T) {
	objects := &input.Objects{Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}}
	for i := range 5 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), Labels: map[string]string{"app": "x"}}}
		pod.Spec.NodeName = "n"
		objects.Pods = append(objects.Pods, pod)
	}
	elsewhere := objects.Pods[0].DeepCopy()
	elsewhere.Namespace = "other"
	objects.Pods = append(objects.Pods, elsewhere)
	c := newCluster(t, objects)
	of := func(v intstr.IntOrString) *intstr.IntOrString { return &v }
	x := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	for name, test := range map[string]struct {
		spec      policyapi.PodDisruptionBudgetSpec
		out, pods int
	}{
		"neither":  {policyapi.PodDisruptionBudgetSpec{Selector: x}, 0, 5},
		"max 0":    {policyapi.PodDisruptionBudgetSpec{Selector: x, MaxUnavailable: of(intstr.FromInt32(0))}, 0, 5},
		"max 1":    {policyapi.PodDisruptionBudgetSpec{Selector: x, MaxUnavailable: of(intstr.FromInt32(1))}, 1, 5},
		"max 9":    {policyapi.PodDisruptionBudgetSpec{Selector: x, MaxUnavailable: of(intstr.FromInt32(9))}, 5, 5},
		"max 30 %": {policyapi.PodDisruptionBudgetSpec{Selector: x, MaxUnavailable: of(intstr.FromString("30%"))}, 2, 5},
		"min 2":    {policyapi.PodDisruptionBudgetSpec{Selector: x, MinAvailable: of(intstr.FromInt32(2))}, 3, 5},
		"min 9":    {policyapi.PodDisruptionBudgetSpec{Selector: x, MinAvailable: of(intstr.FromInt32(9))}, 0, 5},
		"min 50 %": {policyapi.PodDisruptionBudgetSpec{Selector: x, MinAvailable: of(intstr.FromString("50%"))}, 2, 5},
		"no pods":  {policyapi.PodDisruptionBudgetSpec{MaxUnavailable: of(intstr.FromInt32(1))}, 0, 0},
		"all pods": {policyapi.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}, MaxUnavailable: of(intstr.FromInt32(1))}, 1, 5},
	} {
		budget := &policyapi.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, Spec: test.spec}
		limits, err := c.Limits([]*policyapi.PodDisruptionBudget{budget})
		if err != nil || limits[0].Out != test.out || len(limits[0].Pods) != test.pods {
			t.Errorf("%s: %d of %d, error %v; want %d of %d", name, limits[0].Out, len(limits[0].Pods), err, test.out, test.pods)
		}
		budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = 1, 4
		if limits, err = c.Limits([]*policyapi.PodDisruptionBudget{budget}); err != nil || limits[0].Out != 4 {
			t.Errorf("%s: %d, error %v, where the status says 4", name, limits[0].Out, err)
		}
	}
	wrong := &policyapi.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, Spec: policyapi.PodDisruptionBudgetSpec{Selector: x, MinAvailable: of(intstr.FromString("many"))}}
	if _, err := c.Limits([]*policyapi.PodDisruptionBudget{wrong}); err == nil || !strings.Contains(err.Error(), "PodDisruptionBudget ns/b: spec") {
		t.Errorf("error %v", err)
	}
}
