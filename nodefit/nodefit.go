// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodefit tells whether a pod may run on a node as far as taints, labels and resources of the node
// decide. It does what the kube-scheduler plugins TaintToleration, NodeUnschedulable, NodeAffinity and
// NodeResourcesFit check. Functions are safe for concurrent use and modify nothing.
package nodefit

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// cordon is the taint that spec.unschedulable stands for.
var cordon = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// Fits reports whether the pod tolerates the taints of the node and selects it. Resources are not compared. The
// error is about the pod's node affinity.
func Fits(pod *corev1.Pod, node *corev1.Node) (bool, error) {
	if Untolerated(pod, node) != nil {
		return false, nil
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		return false, fmt.Errorf("spec.affinity.nodeAffinity: %w", err)
	}
	return matches, nil
}

// Key has the fields of a pod that Fits reads: pods with equal keys fit the same nodes. Pods with different
// keys may, too.
func Key(pod *corev1.Pod) string {
	var required *corev1.NodeSelector
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		required = affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	text, err := json.Marshal([]any{pod.Spec.NodeSelector, required, pod.Spec.Tolerations})
	if err != nil {
		panic("pod " + pod.Name + " cannot be encoded: " + err.Error()) // it is plain data
	}
	return string(text)
}

// Untolerated returns the first taint of the node that keeps the pod away, nil if there is none. A
// node that is cordoned (spec.unschedulable) has the taint node.kubernetes.io/unschedulable first.
func Untolerated(pod *corev1.Pod, node *corev1.Node) *corev1.Taint {
	if node.Spec.Unschedulable && !tolerates(pod, &cordon) {
		return &cordon
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return taint
		}
	}
	return nil
}

// IsCordon reports whether a taint that Untolerated returned stands for spec.unschedulable.
func IsCordon(taint *corev1.Taint) bool { return taint == &cordon }

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, taint, true)
}

// Needs is what kube-scheduler charges a node for a pod: its requests, and one pod.
func Needs(pod *corev1.Pod) corev1.ResourceList {
	var needs corev1.ResourceList
	spec, asInSpec := &pod.Spec, isAsInSpec(pod)
	if asInSpec && len(spec.Containers) == 1 && len(spec.InitContainers) == 0 && spec.Resources == nil && spec.Overhead == nil {
		requests := spec.Containers[0].Resources.Requests // no sum is needed
		needs = make(corev1.ResourceList, len(requests)+1)
		for name, quantity := range requests {
			needs[name] = quantity.DeepCopy()
		}
	} else {
		needs = podresources.PodRequests(pod, podresources.PodResourcesOptions{UseStatusResources: !asInSpec, InPlacePodLevelResourcesVerticalScalingEnabled: !asInSpec})
	}
	needs[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return needs
}

// isAsInSpec reports whether no status of a container, and none of the pod as a whole, differs from the resources that
// the spec requests. Most pods are never resized. Adding up their status as well would take three times as long.
func isAsInSpec(pod *corev1.Pod) bool {
	if podresources.IsPodResizeInfeasible(pod) || pod.Status.Resources != nil {
		return false
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
				for j := range statuses {
					if statuses[j].Name == containers[i].Name && !hasRequests(&statuses[j], containers[i].Resources.Requests) {
						return false
					}
				}
			}
		}
	}
	return true
}

// hasRequests reports whether the status of a container, as far as it is set, has the requested resources.
func hasRequests(status *corev1.ContainerStatus, requests corev1.ResourceList) bool {
	equal := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
	return (status.AllocatedResources == nil || maps.EqualFunc(status.AllocatedResources, requests, equal)) &&
		(status.Resources == nil || status.Resources.Requests == nil || maps.EqualFunc(status.Resources.Requests, requests, equal))
}

// Occupies reports whether a pod takes resources of its node: it has a node and has not ended.
func Occupies(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
