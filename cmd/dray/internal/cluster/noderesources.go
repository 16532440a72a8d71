// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/nodefit"
)

// room is what is left of the resources of a node.
type room []amount

// amount is what is left of one resource.
type amount struct {
	name        corev1.ResourceName
	left, total resource.Quantity
}

// of is the amount of a resource, nil if the node does not list it.
func (r room) of(name corev1.ResourceName) *amount {
	for i := range r {
		if r[i].name == name {
			return &r[i]
		}
	}
	return nil
}

// roomOf is what is left on a node. Of a node without status.allocatable nothing is known: it has none.
func (c *Cluster) roomOf(node *corev1.Node) room {
	r, known := c.rooms[node.Name]
	if !known {
		for name, total := range node.Status.Allocatable {
			r = append(r, amount{name: name, left: total.DeepCopy(), total: total})
		}
		c.rooms[node.Name] = r
	}
	return r
}

// addPod charges the requests of a pod to its node. Nobody asks what is left of extended resources for which devices
// stand there.
func (c *Cluster) addPod(pod *corev1.Pod, node *corev1.Node) {
	r := c.roomOf(node)
	if len(r) == 0 {
		return
	}
	for name, quantity := range nodefit.Needs(pod) {
		if of := r.of(name); of != nil {
			of.left.Sub(quantity)
		}
	}
}

// shortOf says what of its resources the node has too little for the pod; empty if it has
// enough.
func (c *Cluster) shortOf(needs []need, node *corev1.Node, fromDevices []corev1.ResourceName) reason {
	r := c.roomOf(node)
	if len(r) == 0 {
		return reason{}
	}
	for i := range needs {
		name, needed := needs[i].name, &needs[i].quantity
		if needed.IsZero() || slices.Contains(fromDevices, name) {
			continue
		}
		of := r.of(name)
		if of == nil && !mustBeListed(name) {
			continue
		}
		if of == nil {
			return tooLittle(shortage{name: name, asked: *needed})
		}
		if needed.Cmp(of.left) > 0 {
			return tooLittle(shortage{name, *needed, of.left.DeepCopy(), of.total})
		}
	}
	return reason{}
}

// mustBeListed reports whether a node that does not list a resource has none of it. The
// number of pods is often left out of manifests.
func mustBeListed(name corev1.ResourceName) bool { return name != corev1.ResourcePods }

// need is what a pod asks of one resource.
type need struct {
	name     corev1.ResourceName
	quantity resource.Quantity
}

// needsOf lists what a pod needs, by name.
func needsOf(pod *corev1.Pod) []need {
	var needs []need
	for name, quantity := range nodefit.Needs(pod) {
		needs = append(needs, need{name, quantity})
	}
	slices.SortFunc(needs, func(a, b need) int { return cmp.Compare(a.name, b.name) })
	return needs
}
