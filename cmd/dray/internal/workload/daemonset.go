// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// tolerated are the node taints for which the DaemonSet controller adds tolerations.
var tolerated = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// perNode returns a pod for each node that the template's node selector, node affinity and
// tolerations permit, and that has none yet. Each is bound to its node, as by the DaemonSet
// controller. An existing pod of which no node is known takes the place of any one.
func (c *Controller) perNode(part *Part, existing []*corev1.Pod, nodes []*corev1.Node, taken names) []*corev1.Pod {
	served := make(map[string]bool)
	unknown := 0
	for _, pod := range existing {
		if node := nodeOf(pod); node != "" {
			served[node] = true
		} else {
			unknown++
		}
	}
	var pods []*corev1.Pod
	drawn := 0
	for _, node := range nodes {
		pod := c.pod(part, "")
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerated...)
		if pod.Spec.HostNetwork {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
			})
		}
		if served[node.Name] || !eligible(pod, node) {
			continue
		}
		if unknown > 0 {
			unknown--
			continue
		}
		pod.Name = c.generatedName(part, false, taken, &drawn)
		bindTo(pod, node.Name)
		pods = append(pods, pod)
	}
	return pods
}

func eligible(pod *corev1.Pod, node *corev1.Node) bool {
	// an invalid affinity is reported when the pod is placed
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err == nil && !matches {
		return false
	}
	keepsOut := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	_, kept := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, keepsOut, true)
	return !kept
}

// bindTo replaces the required node affinity, which was evaluated before, by the node's name.
func bindTo(pod *corev1.Pod, node string) {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
}

// nodeOf returns the node of a DaemonSet's pod: the one that it is on, or that its affinity names as
// bindTo does. It is empty if there is none.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
