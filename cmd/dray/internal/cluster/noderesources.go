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

// room is what is free of the resources of a node.
type room []amount

// amount is what is free of one resource.
type amount struct {
	name        corev1.ResourceName
	left, total resource.Quantity
}

// of returns the amount of a resource, nil if the node does not list it.
func (r room) of(name corev1.ResourceName) *amount {
	for i := range r {
		if r[i].name == name {
			return &r[i]
		}
	}
	return nil
}

// roomOf returns what is free on a node. If the node has no status.allocatable, that is unknown,
// and the result is empty.
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

// addPod subtracts the requests of a pod from its node, except extended resources that devices
// provide.
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

// shortOf returns which resource of the node is insufficient for the pod. It is empty if none is.
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

// mustBeListed reports whether a resource that a node does not list counts as 0. The number of pods
// does not, since manifests often omit it.
func mustBeListed(name corev1.ResourceName) bool { return name != corev1.ResourcePods }

// need is the request of a pod for one resource.
type need struct {
	name     corev1.ResourceName
	quantity resource.Quantity
}

// needsOf returns the requests of a pod, sorted by name.
func needsOf(pod *corev1.Pod) []need {
	var needs []need
	for name, quantity := range nodefit.Needs(pod) {
		needs = append(needs, need{name, quantity})
	}
	slices.SortFunc(needs, func(a, b need) int { return cmp.Compare(a.name, b.name) })
	return needs
}
