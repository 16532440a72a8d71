// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
)

// NotLookedAt names what of a pod kube-scheduler looks at and Dray does not, if the pod has
// any of it: whether it can be placed may depend on that.
func (c *Cluster) NotLookedAt(pod *corev1.Pod) []string {
	if pod == nil {
		return nil
	}
	aspects := slices.DeleteFunc(nodefit.NotLookedAt(pod), func(aspect string) bool {
		return aspect == nodefit.SchedulingGates // of which placing says so
	})
	return append(aspects, c.ResourcesUnknown(pod)...)
}

// ResourcesUnknown names the resources of nodes, if the pod asks for some of which a node does not say how much it has.
func (c *Cluster) ResourcesUnknown(pod *corev1.Pod) []string {
	if !c.resourcesUnknown(pod) {
		return nil
	}
	return []string{"CPU, memory and other resources (nodes without status.allocatable)"}
}

// resourcesUnknown reports whether the pod asks for resources of which some node does not
// say how much it has.
func (c *Cluster) resourcesUnknown(pod *corev1.Pod) bool {
	asks := false
	for name, quantity := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		asks = asks || !quantity.IsZero() && !podclaims.IsExtended(name)
	}
	return asks && slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return len(node.Status.Allocatable) == 0 })
}
