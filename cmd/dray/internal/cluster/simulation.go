// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// Simulation returns the cluster as a State for what-if questions. Invalid objects are left out,
// and listed by the State.
func (c *Cluster) Simulation() (*simulate.State, error) {
	input := simulate.Cluster{
		Nodes: c.Nodes, Pods: c.pods, Slices: c.objects.Slices, Claims: c.objects.Claims,
		Templates: c.objects.Templates, Classes: c.objects.Classes,
	}
	if !c.options.NoTaintRules {
		input.TaintRules = c.objects.TaintRules
	}
	if c.options.GroupClaims {
		input.PodGroups = c.objects.PodGroups
	}
	return simulate.Open(input, simulate.Options{
		Features: c.options.Features, Budget: c.options.Budget, DevicePolicy: c.options.Policy, Topology: c.options.Topology,
		Extensions: true,
	})
}

// PendingPods returns the pods that wait for devices, in the order of the scheduling queue.
func (c *Cluster) PendingPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, w := range c.Workloads() {
		if w.Pod != nil {
			pods = append(pods, w.Pod)
		}
	}
	return pods
}
