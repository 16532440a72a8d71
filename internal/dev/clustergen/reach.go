// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

func askedNode(c *alloctest.Case) *corev1.Node {
	for _, node := range c.Nodes {
		if node.Name == c.Node {
			return node
		}
	}
	return nil
}

// reaches tells whether a slice, or any of its devices, is available on the node.
func reaches(slice *resourceapi.ResourceSlice, node *corev1.Node) bool {
	spec := &slice.Spec
	if !ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return selects(spec.NodeName, spec.AllNodes, spec.NodeSelector, node)
	}
	for _, device := range spec.Devices {
		if selects(device.NodeName, device.AllNodes, device.NodeSelector, node) {
			return true
		}
	}
	return false
}

func selects(name *string, all *bool, selector *corev1.NodeSelector, node *corev1.Node) bool {
	if name != nil {
		return *name == node.Name
	}
	if ptr.Deref(all, false) {
		return true
	}
	if selector == nil {
		return false
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	return err == nil && parsed.Match(node)
}
