// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// State is a cluster, what-if included. It is immutable and safe for concurrent use.
type State struct {
	world *world
	data  version
	// current is the State as a wider read set sees it.
	current atomic.Pointer[State]
	// firsts has the first real node with room by kind of pods.
	firsts memo.Map[*podKind, int]
}

// version is what differs between States. Copying it makes a version of it, see table.Table.
type version struct {
	readSet *onenode.ReadSet
	real    table.Table[nodeRecord]
	claims  table.Table[claimRecord]
	groups  []group
	// groupsOf owns groups, and may write to it.
	groupsOf *table.Edition
	around   *onenode.Surroundings
	// expected are devices of real nodes that are not published yet. It is replaced when it changes.
	expected []expectation
}

// nodeRecord is a node as it is in a State. It is a value; what it points to is immutable.
type nodeRecord struct {
	nodeDevices
	used []int64 // of resources, by number
	pods *podEntry
	gone bool
}

// nodeDevices are the devices of a node as they are in a State.
type nodeDevices struct {
	facts *nodeFacts
	// state is nil for an undecided node. That one has options instead.
	state   *onenode.State
	options *options
}

// Node is a handle: a real node, or the n-th of a template. Names of the latter are made when asked
// for. Handles from one State, and from Sims of it, are equal (==) if they are the same node. To any other State
// the handle of a real node means the node of that name there, if there is one, and that of a template a node
// which was not added. The zero value is no node.
type Node struct {
	template *Template
	index    int
	name     string // of a real node
}

// Name is the name of the node.
func (n Node) Name() string {
	if n.template != nil {
		return n.template.nodeName(n.index)
	}
	return n.name
}

// Template is that of a node which does not exist, nil for a real one.
func (n Node) Template() *Template { return n.template }

// Faults lists what of the input was left out, with the reason.
func (s *State) Faults() []Fault { return s.world.faults }

// Sim starts a what-if. It costs as much as copying a small struct.
func (s *State) Sim() *Sim {
	return &Sim{world: s.world, by: new(table.Edition), data: s.data, base: s, from: s}
}

// seen returns the State as the read set of today sees it.
func (s *State) seen() *State {
	l := s.world.ReadSet()
	if s.data.readSet == l {
		return s
	}
	if known := s.current.Load(); known != nil && known.data.readSet == l {
		return known
	}
	m := s.Sim()
	m.look()
	next := m.State()
	s.current.Store(next)
	return next
}

// firstWithRoom is the first real node that may take a pod which shares no claims. It is found out
// once.
func (s *State) firstWithRoom(c *onenode.Call, k *podKind) (int, error) {
	if known, ok := s.firsts.Get(k); ok {
		return known, nil
	}
	seen := s.seen()
	d := &seen.data
	a := d.asked(s.world, k)
	first := 0
	for ; first < d.real.Len(); first++ {
		rec := d.real.At(first)
		if rec.gone {
			continue
		}
		answer, _, err := a.on(c, d, Node{index: first, name: rec.facts.Node.Name}, rec)
		if err != nil {
			return 0, err
		}
		if answer.Verdict != onenode.Unfit {
			break
		}
	}
	s.firsts.Add(k, first, s.world.options.Memory.Kinds)
	return first, nil
}

// Fit is how many pods fit.
type Fit struct {
	// Pods is how many fit for sure. It is Unlimited if there is no limit.
	Pods int
	// Undecided is how many nodes there are on which more may fit: the budget ended the search
	// there, there was an error, or a thousand fit on it already. Pods that share claims or
	// pools of several nodes are counted to a thousand on all nodes together.
	Undecided int
	// Err is the first error about a node, nil if there was none.
	Err error
}

// Unlimited is the number of pods for which there is always another place.
const Unlimited = math.MaxInt

// FitsMany is how many pods of a shape fit, one after the other, without placing them. It takes time
// in proportion to the nodes, with one look-up for each; nodes in the same state are searched once.
// Of a set made by Real that was counted before, nodes that did not change since are not looked at.
// Pods that share claims are placed one by one on a copy. The error is the context's.
func (s *State) FitsMany(ctx context.Context, shape *Shape, on Nodes) (Fit, error) {
	s = s.seen()
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
	a := s.data.asked(s.world, shape.kind)
	if !a.separate(c.Context) {
		return s.fitsOneByOne(c, shape, on)
	}
	t, err := s.data.tally(&c, a, on)
	return t.Fit, err
}

// tally is a count of the separate pods that fit on a set of nodes.
type tally struct {
	Fit
	// nodes is on how many nodes one fits for sure.
	nodes int
	// on is the set, real are the nodes as they were.
	on   *nodeSet
	real table.Table[nodeRecord]
}

// exact reports whether the difference that a node makes can be told.
func (t *tally) exact() bool { return t.Pods != Unlimited && t.Undecided == 0 && t.Err == nil }

// counts are the last counts of real nodes that are exact, one for each kind of pods.
type counts struct {
	readSet *onenode.ReadSet
	byKind  memo.Map[*podKind, *tally]
	most    int
}

// counted returns what was counted with a read set. Counts of a read set before are forgotten.
func (w *world) counted(l *onenode.ReadSet) *counts {
	known := w.counts.Load()
	if known == nil || known.readSet != l {
		known = &counts{readSet: l, most: w.options.Memory.Kinds}
		w.counts.Store(known)
	}
	return known
}

// tally counts how many pods fit on nodes of a State. Of a set that was counted before, it counts
// again what changed.
func (d *version) tally(c *onenode.Call, a *asked, on Nodes) (tally, error) {
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

// manyChanged is the part of the nodes, as a divisor, that has to change for a count to take the place
// of the one that is remembered.
const manyChanged = 32

// recount is a count of before with what changed since. If it is not exact, it says nothing.
func (d *version) recount(c *onenode.Call, a *asked, before *tally) (t tally, changed int, err error) {
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

// count counts how many pods fit, node by node.
func (d *version) count(c *onenode.Call, a *asked, on Nodes) (tally, error) {
	t := tally{on: on.nodeSet, real: d.real}
	for _, part := range on.list() {
		if err := t.countPart(c, a, d, part); err != nil {
			return tally{}, err
		}
	}
	t.Err = c.Err
	return t, nil
}

// countPart adds the nodes of one part of a set, equal ones together.
func (t *tally) countPart(c *onenode.Call, a *asked, d *version, part nodesPart) error {
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

// countReal adds a real node, if it is there and of the part.
func (t *tally) countReal(c *onenode.Call, a *asked, part nodesPart, rec *nodeRecord) error {
	if rec.gone || !part.keeps(rec) {
		return nil
	}
	return t.add(c, a, rec, 1)
}

// add adds equal nodes.
func (t *tally) add(c *onenode.Call, a *asked, rec *nodeRecord, nodes int) error {
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

// product adds n·nodes to a total, without overflow.
func product(n int64, nodes, total int) int {
	if n > 0 && nodes > 0 && (total == Unlimited || nodes > (Unlimited-total)/int(n)) {
		return Unlimited
	}
	return total + int(n)*nodes
}

// fitsOneByOne counts by placing.
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

// group returns the nodes of a template, none if there are none yet.
func (d *version) group(t *Template) *group {
	for i := range d.groups {
		if d.groups[i].template == t {
			return &d.groups[i]
		}
	}
	return &group{template: t}
}

// fresh is a node of a template without pods.
func (d *version) fresh(t *Template) nodeRecord {
	if t.choice != nil {
		return nodeRecord{nodeDevices: nodeDevices{facts: t.facts, options: t.choice.start(d.readSet)}}
	}
	return nodeRecord{nodeDevices: nodeDevices{facts: t.facts, state: t.facts.State(d.readSet, nil)}, used: t.used}
}

// record returns a node as it is. It is false if the node is gone, or was not added.
func (d *version) record(n Node) (nodeRecord, bool) {
	if n.template == nil {
		if n.index >= d.real.Len() {
			return nodeRecord{}, false
		}
		rec := *d.real.At(n.index)
		return rec, !rec.gone
	}
	g := d.group(n.template)
	if position, found := g.locate(n.index); found {
		return g.runs[position].nodeRecord, true
	}
	return d.fresh(n.template), n.index < g.total
}

// here is a handle as this version has it: a real node may be at another position than in the one that it is from.
func (d *version) here(w *world, n Node) Node {
	if n.template != nil || n.index < d.real.Len() && d.real.At(n.index).facts.Node.Name == n.name && !d.real.At(n.index).gone {
		return n
	}
	if index, found := d.named(w, n.name); found {
		return Node{index: index, name: n.name}
	}
	return Node{index: d.real.Len(), name: n.name}
}

// Node returns the handle of a real node. The error is that there is none of that name.
func (s *State) Node(name string) (Node, error) {
	index, found := s.data.named(s.world, name)
	if !found {
		return Node{}, fmt.Errorf("node %s does not exist", name)
	}
	return Node{index: index, name: name}, nil
}

// Object is a real node as the Cluster has it, which must not be modified. It is nil for any other, and for one that is gone.
func (s *State) Object(n Node) *corev1.Node {
	if n = s.data.here(s.world, n); n.template != nil {
		return nil
	}
	if rec, found := s.data.record(n); found {
		return rec.facts.Node
	}
	return nil
}

// Pods lists the pods on a real node, those that were placed last first.
func (s *State) Pods(n Node) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		rec, _ := s.data.record(s.data.here(s.world, n))
		for entry := rec.pods; entry != nil; entry = entry.before {
			if !yield(entry.pod) {
				return
			}
		}
	}
}

// InUse is which part of its devices is in use on a node, from 0 to 1. A device of which shares are
// in use counts as one. Devices of pools of several nodes do not count. It is 0 for a node without
// devices, and for one that is gone. An undecided node counts as the cheapest template that it can
// be of.
func (s *State) InUse(n Node) float64 {
	rec, found := s.data.record(s.data.here(s.world, n))
	if !found {
		return 0
	}
	return rec.inUse()
}

// Devices lists the devices of a node that no other node reaches, with what becomes of them while others are in use. There are
// none of a node that is gone, or undecided.
func (s *State) Devices(n Node) iter.Seq2[pools.DeviceID, DeviceUse] {
	return func(yield func(pools.DeviceID, DeviceUse) bool) {
		n = s.data.here(s.world, n)
		rec, found := s.data.record(n)
		if !found || rec.options != nil {
			return
		}
		facts := s.world.named(n, rec.facts)
		for position, use := range facts.DeviceUses(rec.state.Uses) {
			if !yield(facts.DeviceID(position), DeviceUse(use)) {
				return
			}
		}
	}
}

// DeviceUse is what becomes of a device while others are in use.
type DeviceUse struct {
	// Whole is set if the device is no part of another one (KEP-4815): none of its pool takes as much of all counters as
	// the device does, and more of some.
	Whole bool
	// Free is set if nothing that is in use keeps the device from being allocated as a whole. Taints do not count.
	Free bool
}

// Utilization is which part of each pool of a node is in use, for decisions such as those of
// cluster-autoscaler's scale-down: of its devices, or of the counter that most is consumed of (KEP-4815),
// whichever is more. A device of which shares are in use (KEP-5075) counts by the capacity that most is
// consumed of. A part is from 0 to 1, and more if the pool is overdrawn. Pools of several nodes are not
// listed; neither is anything of a node that is gone. An undecided node counts as the cheapest template
// that it can be of.
func (s *State) Utilization(n Node) iter.Seq2[pools.PoolID, float64] {
	rec, found := s.data.record(s.data.here(s.world, n))
	if !found {
		return func(func(pools.PoolID, float64) bool) {}
	}
	if o := rec.options; o != nil {
		rec, _ = rec.as(o.cheapest())
	}
	return rec.facts.Utilization(rec.state.Uses)
}

func (r *nodeRecord) inUse() float64 {
	if o := r.options; o != nil {
		one, _ := r.as(o.cheapest())
		return one.inUse()
	}
	if r.facts.Size == 0 {
		return 0
	}
	return float64(len(r.state.Uses)) / float64(r.facts.Size)
}
