// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// Fit is how many pods fit.
type Fit struct {
	// Pods certainly fit. It is Unlimited if there is no limit.
	Pods int
	// Undecided is the number of nodes on which more may fit: the budget ran out, there was an error, or
	// counting stopped at a thousand. Pods that share claims or pools of several nodes are counted up to a
	// thousand on all nodes together.
	Undecided int
	// Err is the first error about a node, nil if there was none.
	Err error
}

// FitsMany counts the pods of a shape that fit, one after the other, without placing them. It takes time in
// proportion to the nodes, with one look-up for each. Nodes in the same state are searched once. If a set made
// by Real was counted before, only nodes that changed since are looked at. Pods that share claims are placed
// one by one on a copy. The error is the context's.
func (s *State) FitsMany(ctx context.Context, shape *Shape, on Nodes) (Fit, error) {
	s = s.withReadSet()
	c, err := s.world.NewCall(ctx)
	if err != nil {
		return Fit{}, err
	}
	if shape, err = shape.in(s.world); err != nil {
		return Fit{}, err
	}
	if on, err = on.fixed(s.world, &s.data); err != nil {
		return Fit{}, err
	}
	a := s.data.needsOf(s.world, shape.kind)
	if !a.separate(c.Context) {
		return s.fitsOneByOne(c, shape, on)
	}
	t, err := s.data.tally(&c, a, on)
	return t.Fit, err
}

// tally is a count of the separate pods that fit on a set of nodes.
type tally struct {
	Fit
	// nodes is the number of nodes on which at least one pod certainly fits.
	nodes int
	// on is the set. real are its nodes when they were counted.
	on   *nodeSet
	real table.Table[nodeRecord]
}

// exact reports whether the count can be updated by the difference for each changed node.
func (t *tally) exact() bool { return t.Pods != Unlimited && t.Undecided == 0 }

// counts caches the last exact count of real nodes for each kind of pods.
type counts struct {
	readSet *onenode.ReadSet
	byKind  memo.Map[*podKind, *tally]
	most    int
}

// counted returns the counts for a read set. Counts for another read set are dropped.
func (w *world) counted(l *onenode.ReadSet) *counts {
	known := w.counts.Load()
	if known == nil || known.readSet != l {
		known = &counts{readSet: l, most: w.options.Memory.Kinds}
		w.counts.Store(known)
	}
	return known
}

// tally counts the pods that fit on nodes. If the set was counted before, only changed nodes are counted again.
func (d *version) tally(c *onenode.Call, a *podNeeds, on Nodes) (tally, error) {
	counts := a.world.counted(d.readSet)
	if known, _ := counts.byKind.Get(a.kind); known != nil && known.on == on.nodeSet && known.real.Len() == d.real.Len() {
		attempt := *c
		t, changed, err := d.recount(&attempt, a, known)
		if err != nil {
			return tally{}, err
		}
		if t.exact() {
			if changed > d.real.Len()/manyChanged {
				counts.keep(a.kind, t)
			}
			return t, nil
		}
		c.Budget = attempt.Budget
	}
	t, err := d.count(c, a, on)
	if parts := on.list(); err == nil && len(parts) == 1 && parts[0].template == nil && parts[0].list == nil && t.exact() {
		counts.keep(a.kind, t)
	}
	return t, err
}

func (c *counts) keep(k *podKind, t tally) { c.byKind.Add(k, &t, c.most) }

// manyChanged is a divisor of the number of nodes. If a larger part has changed, the new count replaces the
// cached one.
const manyChanged = 32

// recount updates a count for the nodes that changed since. The result is valid only if it is exact.
func (d *version) recount(c *onenode.Call, a *podNeeds, before *tally) (t tally, changed int, err error) {
	t = tally{Fit: before.Fit, nodes: before.nodes, on: before.on, real: d.real}
	part := t.on.parts[0]
	for i := range d.real.Changes(&before.real) {
		old, now := before.real.At(i), d.real.At(i)
		if old.facts == now.facts && old.state == now.state && old.options == now.options && old.gone == now.gone && slices.Equal(old.used, now.used) {
			continue
		}
		changed++
		alike, err := a.alike(c, old, now)
		if err != nil {
			return tally{}, 0, err
		}
		if alike {
			continue
		}
		var less, more tally
		if err := less.countReal(c, a, part, old); err != nil {
			return tally{}, 0, err
		}
		if err := more.countReal(c, a, part, now); err != nil {
			return tally{}, 0, err
		}
		if !less.exact() || !more.exact() {
			t.Undecided = 1
			break
		}
		t.Pods, t.nodes = t.Pods+more.Pods-less.Pods, t.nodes+more.nodes-less.nodes
	}
	return t, changed, nil
}

// count counts the pods that fit, node by node.
func (d *version) count(c *onenode.Call, a *podNeeds, on Nodes) (tally, error) {
	t := tally{on: on.nodeSet, real: d.real}
	for _, part := range on.list() {
		if err := t.countPart(c, a, d, part); err != nil {
			return tally{}, err
		}
	}
	t.Err = c.Err
	return t, nil
}

// countPart adds the nodes of one part of a set, equal ones in one step.
func (t *tally) countPart(c *onenode.Call, a *podNeeds, d *version, part nodesPart) error {
	if part.template == nil {
		for i := range d.realOf(part, 0) {
			if err := t.countReal(c, a, part, d.real.At(i)); err != nil {
				return err
			}
		}
		return nil
	}
	g := d.group(part.template)
	for i := range g.runs {
		if err := t.add(c, a, &g.runs[i].nodeRecord, g.runs[i].count); err != nil {
			return err
		}
	}
	if n := part.freshNodes(g); n > 0 {
		fresh := d.fresh(part.template)
		return t.add(c, a, &fresh, n)
	}
	return nil
}

// countReal adds a real node, unless it was removed or is not in the part.
func (t *tally) countReal(c *onenode.Call, a *podNeeds, part nodesPart, rec *nodeRecord) error {
	if rec.gone || !part.keeps(rec) {
		return nil
	}
	return t.add(c, a, rec, 1)
}

// add adds a number of equal nodes.
func (t *tally) add(c *onenode.Call, a *podNeeds, rec *nodeRecord, nodes int) error {
	n, doubt, err := a.room(c, rec, onenode.Unlimited)
	if doubt {
		t.Undecided += min(nodes, math.MaxInt32)
	}
	if n > 0 {
		t.nodes += min(nodes, math.MaxInt32)
	}
	if t.Pods = product(n, nodes, t.Pods); n == onenode.Unlimited && nodes > 0 {
		t.Pods = Unlimited
	}
	return err
}

// product returns total + n·nodes, at most Unlimited.
func product(n int64, nodes, total int) int {
	if n > 0 && nodes > 0 && (total == Unlimited || nodes > (Unlimited-total)/int(n)) {
		return Unlimited
	}
	return total + int(n)*nodes
}

// fitsOneByOne counts pods by placing them on a copy.
func (s *State) fitsOneByOne(c onenode.Call, shape *Shape, on Nodes) (Fit, error) {
	b := &batch{sim: s.Sim(), call: c, shape: shape, on: on, left: onenode.MaxOneByOne, counting: true}
	if err := b.run(); err != nil {
		return Fit{}, err
	}
	fit := Fit{Pods: b.count(), Err: b.call.Err}
	if b.endless {
		fit.Pods = Unlimited
	}
	if b.doubtful || b.left == 0 {
		fit.Undecided = 1
	}
	return fit, nil
}

// Room is what is left of one node, as pods are placed on it one after the other. Take changes its devices;
// Free and Needs are about other resources. It is for searches for combinations of pods on a node. It is
// immutable, safe for concurrent use, and can be used with its State only.
type Room struct {
	world *world
	// version has the read set of the node's state, and the pools of several nodes.
	version version
	node    Node
	nodeRecord
}

// ErrNotAlone says that other nodes affect the devices that pods get on a node: they share claims, or pools of
// several nodes can serve them.
var ErrNotAlone = errors.New("what the pods get depends on other nodes: they share claims, or several nodes can reach the devices")

// Room returns what is left of a node. It is an error if the node does not exist or is undecided.
func (s *State) Room(n Node) (Room, error) {
	s = s.withReadSet()
	n = s.data.translate(s.world, n)
	rec, found := s.data.record(n)
	switch {
	case !found:
		return Room{}, fmt.Errorf("node %s does not exist", n.Name())
	case rec.options != nil:
		return Room{}, fmt.Errorf("node %s: %w", n.Name(), ErrUndecidedNode)
	}
	return Room{world: s.world, version: version{readSet: s.data.readSet, surroundings: s.data.surroundings}, node: n, nodeRecord: rec}, nil
}

// RoomDevices identifies the devices that are left in a Room. Values are compared by ==.
type RoomDevices struct{ state *onenode.State }

// Devices returns a value that is equal for Rooms with the same devices left, if the nodes admit the same pods.
// Unequal values do not imply that the devices differ.
func (r *Room) Devices() RoomDevices { return RoomDevices{r.state} }

// Take returns what is left after another pod of the shape, as far as devices are concerned. Fit.Pods is 1 if
// the node admits the pod and has the devices; Fit.Undecided is 1 if that is undecided. If both are 0, or it is
// undecided, the Room is returned unchanged. CPU and other resources are neither checked nor changed. It is a
// look-up if a node in the same state was asked before, otherwise a search.
//
// The error is ErrNotAlone, is about a shape that cannot be used with the State, or is the context's.
func (r *Room) Take(ctx context.Context, shape *Shape) (Room, Fit, error) {
	c, err := r.world.NewCall(ctx)
	if err != nil {
		return *r, Fit{}, err
	}
	if shape, err = shape.in(r.world); err != nil {
		return *r, Fit{}, err
	}
	a := r.version.needsOf(r.world, shape.kind)
	if !a.separate(c.Context) {
		return *r, Fit{}, fmt.Errorf("pods like %s: %w", shape.name(), ErrNotAlone)
	}
	next := *r
	if l := r.world.ReadSet(); l != r.version.readSet {
		next.version.readSet, next.state = l, r.facts.State(l, r.state.Uses)
	}
	number := a.variant(r.node, r.facts)
	if number < 0 {
		return *r, Fit{}, nil
	}
	answer, err := a.served(&c, &next.version, r.node, &next.nodeRecord, number)
	if err != nil {
		return *r, Fit{}, err
	}
	switch answer.Fit {
	case onenode.Fits:
		next.state = answer.Next()
		return next, Fit{Pods: 1}, nil
	case onenode.Unfit:
		return *r, Fit{}, nil
	}
	return *r, Fit{Undecided: 1, Err: answer.Err}, nil
}

// Free returns what is left of CPU, memory and other resources. Nil means no limit: the node does not list its
// allocatable resources. If the number of pods is not listed, it is not limited either. Nothing is left of any
// other resource that is not listed.
func (r *Room) Free() corev1.ResourceList {
	if r.facts.allocatable == nil {
		return nil
	}
	free := make(corev1.ResourceList)
	for number, total := range r.facts.allocatable {
		if total == amounts.NotListed {
			continue
		}
		if number < len(r.used) {
			total -= r.used[number]
		}
		name := r.world.resources.Name(number)
		free[name] = amounts.Quantity(name, total)
	}
	return free
}

// Needs returns what a pod of the shape requests of these resources. Extended resources that devices of the
// node provide are left out. The error is about a shape that cannot be used with the State.
func (r *Room) Needs(shape *Shape) (corev1.ResourceList, error) {
	shape, err := shape.in(r.world)
	if err != nil {
		return nil, err
	}
	needs := make(corev1.ResourceList)
	if number := r.world.admittedVariant(shape.kind, r.facts); number >= 0 {
		for _, d := range shape.kind.variantAt(number).demands {
			name := r.world.resources.Name(d.Resource)
			needs[name] = amounts.Quantity(name, d.Value)
		}
	}
	return needs, nil
}

// At returns the handle of the n-th node of the template, from 0 on. The node exists in a Sim to which at least
// n+1 nodes were added.
func (t *Template) At(n int) Node { return Node{template: t, index: n} }
