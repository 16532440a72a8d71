// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Group returns the PodGroup whose spec has the same entry as the pod: the same name and reference. Its pods
// share the claim, which is reserved for the group. It is nil if there is none.
func (r *Resolver) Group(pod *corev1.Pod, podClaim corev1.PodResourceClaim) *schedulingapi.PodGroup {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	group := r.groups[types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}]
	if group == nil {
		return nil
	}
	for _, claim := range group.Spec.ResourceClaims {
		if claim.Name == podClaim.Name && ptr.Equal(claim.ResourceClaimName, podClaim.ResourceClaimName) &&
			ptr.Equal(claim.ResourceClaimTemplateName, podClaim.ResourceClaimTemplateName) {
			return group
		}
	}
	return nil
}

// groupClaimKey is the key of the claim that was made for the group, or will be.
func (r *Resolver) groupClaimKey(group *schedulingapi.PodGroup, podClaimName string) types.NamespacedName {
	for _, status := range group.Status.ResourceClaimStatuses {
		if status.Name == podClaimName && status.ResourceClaimName != nil {
			return types.NamespacedName{Namespace: group.Namespace, Name: *status.ResourceClaimName}
		}
	}
	if made, found := r.claimFor(purpose{"PodGroup", keyOf(group), podClaimName}); found {
		return made
	}
	return types.NamespacedName{Namespace: group.Namespace, Name: WithSuffix(group.Namespace, generateName(group.Name, podClaimName))}
}

// wasMadeFor reports whether the claim was made for the pod, or for its group.
func (r *Resolver) wasMadeFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod, podClaim corev1.PodResourceClaim) bool {
	if group := r.Group(pod, podClaim); group != nil {
		owner := metav1.GetControllerOfNoCopy(claim)
		return owner != nil && owner.Kind == "PodGroup" && owner.Name == group.Name
	}
	return r.ownedBy(claim, pod)
}

// Consumer is the pod or group for which a claim is reserved when the pod uses it.
func (r *Resolver) Consumer(claim *resourceapi.ResourceClaim, pod *corev1.Pod) resourceapi.ResourceClaimConsumerReference {
	for _, podClaim := range pod.Spec.ResourceClaims {
		if group := r.Group(pod, podClaim); group != nil && r.Key(pod, podClaim) == keyOf(claim) {
			return resourceapi.ResourceClaimConsumerReference{
				APIGroup: schedulingapi.GroupName, Resource: "podgroups", Name: group.Name, UID: r.groupUID(group),
			}
		}
	}
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: r.PodUID(pod)}
}

// OnlyOwn reports whether no other pod can use the claims of a pod: they are made from templates, and for the pod. In a PodGroup, they
// may be made for the group, so it is false for pods of one that have claims.
func OnlyOwn(pod *corev1.Pod) bool {
	claims := pod.Spec.ResourceClaims
	return len(claims) == 0 || pod.Spec.SchedulingGroup == nil && !slices.ContainsFunc(claims, func(c corev1.PodResourceClaim) bool { return c.ResourceClaimTemplateName == nil })
}
