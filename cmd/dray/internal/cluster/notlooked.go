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

// NotLookedAt returns the aspects of a pod that kube-scheduler looks at and Dray does not. They may
// affect whether the pod can be placed.
func (c *Cluster) NotLookedAt(pod *corev1.Pod) []string {
	if pod == nil {
		return nil
	}
	aspects := slices.DeleteFunc(nodefit.NotLookedAt(pod), func(aspect string) bool {
		return aspect == nodefit.SchedulingGates // placing reports these
	})
	return append(aspects, c.ResourcesUnknown(pod)...)
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
