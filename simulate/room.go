// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Room is what one node has left, as pods come to it one after the other. Devices and other resources are apart: Take is
// about devices, Free and Needs are about the rest. It is for searches over what fits on a node. It is immutable and safe
// for concurrent use, and belongs to the State that it is from.
type Room struct {
	world *world
	// seen has the read set of the state and what is around the node.
	seen version
	node Node
	nodeRecord
}

// ErrNotAlone is that what pods get on a node depends on other nodes: they share claims, or devices that several nodes
// can reach may serve them.
var ErrNotAlone = errors.New("what the pods get depends on other nodes: they share claims, or several nodes can reach the devices")

// Room returns what a node has left. The error is that the node does not exist or is undecided.
func (s *State) Room(n Node) (Room, error) {
	s = s.seen()
	n = s.data.here(s.world, n)
	rec, found := s.data.record(n)
	switch {
	case !found:
		return Room{}, fmt.Errorf("node %s does not exist", n.Name())
	case rec.options != nil:
		return Room{}, fmt.Errorf("node %s: %w", n.Name(), ErrUndecidedNode)
	}
	return Room{world: s.world, seen: version{readSet: s.data.readSet, around: s.data.around}, node: n, nodeRecord: rec}, nil
}

// RoomDevices are the devices that a Room has left, with what is left of each, to be compared by ==.
type RoomDevices struct{ state *onenode.State }

// Devices are equal for Rooms that have the same devices left, if the nodes admit the same pods. Where they differ, the
// devices may still be the same.
func (r *Room) Devices() RoomDevices { return RoomDevices{r.state} }

// Take is what is left once another pod of the shape came, as far as devices are concerned. Fit.Pods is 1 if the node admits the pod
// and has the devices. If that is undecided, Fit.Undecided is 1. If it is neither, and the Room is the one
// given. CPU and other resources are not looked at, and stay as they are. It is a look-up if a node in
// the same state was asked before, else a search.
//
// The error is ErrNotAlone, or about a shape that does not go with the State; or it is the context's.
func (r *Room) Take(ctx context.Context, shape *Shape) (Room, Fit, error) {
	c, err := r.world.NewCall(ctx)
	if err != nil {
		return *r, Fit{}, err
	}
	if shape, err = shape.in(r.world); err != nil {
		return *r, Fit{}, err
	}
	a := r.seen.asked(r.world, shape.kind)
	if !a.separate(c.Context) {
		return *r, Fit{}, fmt.Errorf("pods like %s: %w", shape.name(), ErrNotAlone)
	}
	next := *r
	if l := r.world.ReadSet(); l != r.seen.readSet {
		next.seen.readSet, next.state = l, r.facts.State(l, r.state.Uses)
	}
	number := a.variant(r.node, r.facts)
	if number < 0 {
		return *r, Fit{}, nil
	}
	answer, err := a.served(&c, &next.seen, r.node, &next.nodeRecord, number)
	if err != nil {
		return *r, Fit{}, err
	}
	switch answer.Verdict {
	case onenode.Fits:
		next.state = answer.Next()
		return next, Fit{Pods: 1}, nil
	case onenode.Unfit:
		return *r, Fit{}, nil
	}
	return *r, Fit{Undecided: 1, Err: answer.Err}, nil
}

// Free is what the node has left of CPU, memory and so on. Nil is that it does not say what it has: then there is no limit. Nor is there
// one on the number of pods if that is not listed; of anything else that is not listed there is none.
func (r *Room) Free() corev1.ResourceList {
	if r.facts.allocatable == nil {
		return nil
	}
	free := make(corev1.ResourceList)
	for number, total := range r.facts.allocatable {
		if total == notListed {
			continue
		}
		if number < len(r.used) {
			total -= r.used[number]
		}
		name := r.world.resources.name(number)
		free[name] = quantityOf(name, total)
	}
	return free
}

// Needs is what a pod of the shape takes of that, without the extended resources that devices of the node provide. The
// error is about a shape that does not go with the State.
func (r *Room) Needs(shape *Shape) (corev1.ResourceList, error) {
	shape, err := shape.in(r.world)
	if err != nil {
		return nil, err
	}
	needs := make(corev1.ResourceList)
	if number := r.world.on(shape.kind, r.facts); number >= 0 {
		for _, d := range shape.kind.variantAt(number).demands {
			name := r.world.resources.name(d.resource)
			needs[name] = quantityOf(name, d.value)
		}
	}
	return needs, nil
}

// quantityOf is the opposite of valueOf.
func quantityOf(name corev1.ResourceName, value int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(value, resource.DecimalSI)
	}
	return *resource.NewQuantity(value, resource.DecimalSI)
}

// At is the handle of the n-th node of the template, from 0 on. The node is there in a Sim to which as many were added.
func (t *Template) At(n int) Node { return Node{template: t, index: n} }
