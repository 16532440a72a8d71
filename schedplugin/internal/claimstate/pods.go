// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// HoldsClaims reports whether a pod names claims, or has one for extended resources.
func HoldsClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// RefersTo reports whether a claim is one that the pod names, or was made for it. The queue asks it of each waiting pod after each event of
// a claim. So it makes no error where a claim has no name yet, as resourceclaim.PodClaims does.
func RefersTo(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	if pod.Namespace != claim.Namespace {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		if name := claimName(pod, &pod.Spec.ResourceClaims[i]); name != nil && *name == claim.Name {
			return true
		}
	}
	extended := pod.Status.ExtendedResourceClaimStatus
	return extended != nil && extended.ResourceClaimName == claim.Name
}

// claimName is the name of a claim of the pod, nil if it has none yet or if no claim is needed.
func claimName(pod *corev1.Pod, reference *corev1.PodResourceClaim) *string {
	if reference.ResourceClaimName != nil || reference.ResourceClaimTemplateName == nil {
		return reference.ResourceClaimName
	}
	for i := range pod.Status.ResourceClaimStatuses {
		if status := &pod.Status.ResourceClaimStatuses[i]; status.Name == reference.Name {
			return status.ResourceClaimName
		}
	}
	return nil
}

// MadeFor reports whether a claim was created for the extended resources of a pod.
func MadeFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && metav1.IsControlledBy(claim, pod)
}

// Freed reports whether an update of a claim removed its allocation.
func Freed(before, after *resourceapi.ResourceClaim) bool {
	return before.Status.Allocation != nil && after.Status.Allocation == nil
}

// Done reports whether a pod is finished.
func Done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Leaves reports whether a pod is finished, or being deleted because it was preempted.
func Leaves(pod *corev1.Pod) bool { return Done(pod) || preemption.PodTerminatingByPreemption(pod) }
