// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
)

// NotLookedAt returns the aspects of a pod that kube-scheduler looks at and Dray does not. They may
// affect whether the pod can be placed.
func (c *Cluster) NotLookedAt(pod *corev1.Pod) []string {
	if pod == nil {
		return nil
	}
	aspects := slices.DeleteFunc(nodefit.NotLookedAt(pod), func(aspect string) bool {
		return aspect == nodefit.SchedulingGates // placing reports these
	})
	info := &types.PodInfo{Spec: &pod.Spec}
	if slices.ContainsFunc(features.AllFeatures, func(f types.Feature) bool { return f.InferForScheduling(info) }) {
		aspects = append(aspects, "features that nodes declare")
	}
	if c.lacksClaims(pod) {
		aspects = append(aspects, "claims that have not been made from their templates yet")
	}
	return append(aspects, c.ResourcesUnknown(pod)...)
}

// lacksClaims reports whether a claim of a pod that an API server knows has not been made. Until it
// is, the scheduler leaves the pod aside. A ResourceQuota may be the reason.
func (c *Cluster) lacksClaims(pod *corev1.Pod) bool {
	return pod.ResourceVersion != "" && Pending(pod) && slices.ContainsFunc(pod.Spec.ResourceClaims, func(podClaim corev1.PodResourceClaim) bool {
		told := slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(status corev1.PodResourceClaimStatus) bool { return status.Name == podClaim.Name })
		key := c.claims.Key(pod, podClaim)
		_, found := c.objects.Origin("ResourceClaim", key.Namespace, key.Name)
		return podClaim.ResourceClaimTemplateName != nil && !told && !found
	})
}

// ResourcesUnknown returns a phrase if the pod requests resources whose amount some node does not
// state.
func (c *Cluster) ResourcesUnknown(pod *corev1.Pod) []string {
	if !c.resourcesUnknown(pod) {
		return nil
	}
	return []string{"CPU, memory and other resources (nodes without status.allocatable)"}
}

// resourcesUnknown reports whether the pod requests resources whose amount some node does not
// state.
func (c *Cluster) resourcesUnknown(pod *corev1.Pod) bool {
	asks := false
	for name, quantity := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		asks = asks || !quantity.IsZero() && !podclaims.IsExtended(name)
	}
	return asks && slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return len(node.Status.Allocatable) == 0 })
}

// Bypassed returns the entry of a pod's spec whose claim has no devices although the pod has a node.
// It is empty if there is none. Such a pod was created with spec.nodeName: the scheduler does not look
// at it, and the kubelet waits for the devices.
func (c *Cluster) Bypassed(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" || pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending {
		return ""
	}
	for _, podClaim := range pod.Spec.ResourceClaims {
		if claim := c.claims.Claim(c.claims.Key(pod, podClaim)); claim != nil && claim.Status.Allocation == nil {
			return podClaim.Name
		}
	}
	return ""
}
