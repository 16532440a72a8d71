// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// instanceType is the type of all existing nodes. It does not matter for published devices.
const instanceType = "example"

// existingNode is an existing node as Karpenter's scheduler presents it to its allocator: its
// devices are published, and it has one instance type. As in Karpenter, its requirements are made
// once per scheduling loop.
type existingNode struct {
	name         string
	requirements scheduling.Requirements
}

func newExistingNode(node *corev1.Node) *existingNode {
	requirements := scheduling.NewLabelRequirements(node.Labels)
	requirements.Add(scheduling.NewRequirement(corev1.LabelHostname, corev1.NodeSelectorOpIn, hostname(node)))
	return &existingNode{name: node.Name, requirements: requirements}
}

func hostname(node *corev1.Node) string {
	if name, ok := node.Labels[corev1.LabelHostname]; ok {
		return name
	}
	return node.Name
}

// existingNodes returns all nodes of a cluster.
func existingNodes(nodes []*corev1.Node) []*existingNode {
	existing := make([]*existingNode, len(nodes))
	for i, node := range nodes {
		existing[i] = newExistingNode(node)
	}
	return existing
}

// ID implements dynamicresources.NodeClaim, as the following methods do.
func (n *existingNode) ID() dynamicresources.NodeClaimID { return handle("example:///" + n.name) }

// NodeName makes slices with this node's name reachable.
func (n *existingNode) NodeName() string { return n.name }

// NodePoolID is needed only for attributes that are known at runtime.
func (n *existingNode) NodePoolID() dynamicresources.NodePoolID { return handle("default") }

// Requirements returns the labels.
func (n *existingNode) Requirements() scheduling.Requirements { return n.requirements }

// InstanceTypes returns the type of the existing node.
func (n *existingNode) InstanceTypes() []dynamicresources.InstanceTypeID {
	return []dynamicresources.InstanceTypeID{handle(instanceType)}
}

// ResourceSlices returns no slices, since all are published.
func (n *existingNode) ResourceSlices() map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice {
	return map[dynamicresources.InstanceTypeID][]dynamicresources.ResourceSlice{}
}
