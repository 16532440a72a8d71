package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// unfit says why the workload cannot go to the node whatever devices it has; empty if
// it can. It names no node, so that nodes which are refused alike can be counted.
func unfit(w Workload, claims []*resourceapi.ResourceClaim, node *corev1.Node) (string, error) {
	if reason := unfitClaims(claims, node); reason != "" {
		return reason, nil
	}
	if w.Pod == nil {
		if node.Spec.Unschedulable {
			return "the node is cordoned (spec.unschedulable)", nil
		}
		return "", nil
	}
	if reason := untolerated(w.Pod, node); reason != "" {
		return reason, nil
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(w.Pod).Match(node)
	if err != nil {
		return "", fmt.Errorf("spec.affinity.nodeAffinity: %w", err)
	}
	if !matches {
		return "the pod's node selector or node affinity does not match", nil
	}
	return "", nil
}

// unfitClaims checks claims that are allocated already: their devices are not
// reachable from every node.
func unfitClaims(claims []*resourceapi.ResourceClaim, node *corev1.Node) string {
	for _, claim := range claims {
		if claim.Status.Allocation == nil || claim.Status.Allocation.NodeSelector == nil {
			continue
		}
		selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
		if err != nil {
			return fmt.Sprintf("claim %s: status.allocation.nodeSelector: %v", claim.Name, err)
		}
		if !selector.Match(node) {
			return fmt.Sprintf("claim %s is already allocated, and its devices cannot be reached", claim.Name)
		}
	}
	return ""
}

// cordon is the taint that stands for spec.unschedulable.
var cordon = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func untolerated(pod *corev1.Pod, node *corev1.Node) string {
	if node.Spec.Unschedulable && !tolerates(pod, cordon) {
		return "the node is cordoned (spec.unschedulable)"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return fmt.Sprintf("the pod does not tolerate node taint %s", taint.ToString())
		}
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &taint, true)
}
