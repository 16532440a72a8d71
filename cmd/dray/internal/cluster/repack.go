// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyapi "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dray-project/dray/simulate/moves"
)

const (
	// MoveCostAnnotation is the annotation with the cost of moving a pod, a number. The default is
	// 1.
	MoveCostAnnotation = "dray-project.github.io/move-cost"
	// safeToEvict is "false" on pods that cluster-autoscaler does not evict.
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// MoveCost returns the cost of moving a pod. It is infinite if the pod must not be evicted, or if
// no controller would create it again. It returns an error for an invalid annotation.
func MoveCost(pod *corev1.Pod) (float64, error) {
	if GoesWithNode(pod) || metav1.GetControllerOf(pod) == nil || pod.Annotations[safeToEvict] == "false" {
		return math.Inf(1), nil
	}
	text, found := pod.Annotations[MoveCostAnnotation]
	if !found {
		return 1, nil
	}
	cost, err := strconv.ParseFloat(text, 64)
	if err != nil || !(cost >= 0) {
		return 0, fmt.Errorf("pod %s/%s: metadata.annotations[%s]: %q: want a number that is not negative", pod.Namespace, pod.Name, MoveCostAnnotation, text)
	}
	return cost, nil
}

// GoesWithNode reports whether a pod belongs to its node: it is a mirror pod or a pod of a
// DaemonSet.
func GoesWithNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || owner != nil && owner.Kind == "DaemonSet"
}

// Budgets returns the PodDisruptionBudgets that were read.
func (c *Cluster) Budgets() []*policyapi.PodDisruptionBudget { return c.objects.Budgets }

// Limits returns how many evictions PodDisruptionBudgets permit. That comes from the status, or, if
// no controller has written one, from the spec and the running pods. The error names a budget and
// its field.
func (c *Cluster) Limits(budgets []*policyapi.PodDisruptionBudget) ([]moves.Limit, error) {
	var limits []moves.Limit
	for _, budget := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("PodDisruptionBudget %s: spec.selector: %w", keyOf(budget), err)
		}
		limit := moves.Limit{Out: int(budget.Status.DisruptionsAllowed)}
		for _, pod := range c.Running() {
			if pod.Namespace == budget.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				limit.Pods = append(limit.Pods, pod)
			}
		}
		if budget.Status.ObservedGeneration == 0 {
			if limit.Out, err = permitted(&budget.Spec, len(limit.Pods)); err != nil {
				return nil, fmt.Errorf("PodDisruptionBudget %s: spec: %w", keyOf(budget), err)
			}
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// permitted returns how many of a number of pods may be evicted. A budget without a limit permits
// none.
func permitted(spec *policyapi.PodDisruptionBudgetSpec, pods int) (int, error) {
	switch {
	case spec.MaxUnavailable != nil:
		most, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, pods, true)
		return min(most, pods), err
	case spec.MinAvailable != nil:
		least, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, pods, true)
		return max(0, pods-least), err
	}
	return 0, nil
}
