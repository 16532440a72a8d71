// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/ranking"
	"github.com/dray-project/dray/simulate/internal/table"
)

// NodePolicy chooses a node among those on which a pod fits. Options.DevicePolicy chooses the devices of the node.
// A policy is immutable.
type NodePolicy struct {
	// score is nil for first fit.
	score func(NodeClass) float64
	// lasting identifies a policy whose scores depend on the node alone, so that they can be cached; 0 for any
	// other.
	lasting int
}

// FirstFit takes the first node that fits, in the order of the set.
var FirstFit = NodePolicy{}

// Score returns a policy that prefers the node with the highest score, the first of several. f is called once
// per call for all nodes in the same state.
func Score(f func(NodeClass) float64) NodePolicy { return NodePolicy{score: f} }

// NodeClass is an equivalence class of nodes, as a Policy sees it: they are in the same state.
type NodeClass struct {
	// Example is one of the nodes. For an undecided node, the other fields are those of the cheapest template
	// that remains once the pod is there.
	Example Node
	// InUse is the fraction of the devices that are in use, from 0 to 1.
	InUse float64
	// Room returns how many more pods of a shape get devices on the node, RoomAfter the same once the pod is
	// placed. They ignore other resources, and pools of several nodes. If the number is undecided, they return
	// how many certainly fit.
	Room, RoomAfter func(*Shape) int
}

// batch is one call that places pods of a shape.
type batch struct {
	sim    *Sim
	call   onenode.Call
	shape  *Shape
	on     Nodes
	policy NodePolicy
	needs  *podNeeds
	left   int
	placed []segment
	// perNode is the largest number of the pods on one node, 0 for any number. counts has the present numbers,
	// if nodes are chosen one by one.
	perNode int
	counts  map[Node]int
	// doubtful is set if the last pod that was not placed may fit.
	doubtful bool
	// counting is set to count pods that are not kept. The batch then ends, with endless set, once a pod
	// changes nothing.
	counting, endless bool
}

// count returns the number of placed pods.
func (b *batch) count() int {
	n := 0
	if last := len(b.placed) - 1; last >= 0 {
		n = b.placed[last].first + b.placed[last].nodes*b.placed[last].each
	}
	return n
}

// segment starts a segment on a node.
func (b *batch) segment(n Node, rec *nodeRecord) segment {
	return segment{node: n, nodes: 1, first: b.count(), before: rec.nodeDevices, surroundings: b.sim.data.surroundings, needs: b.needs, shape: b.shape}
}

// interrupted checks the context for every 1024th pod, as cached answers do not check it.
func (b *batch) interrupted(pod int) error {
	const often = 1024
	if pod%often == 0 && b.call.Context.Err() != nil {
		return context.Cause(b.call.Context)
	}
	return nil
}

// nothingChanged reports whether devices and resources are as before the last pod. It is false if
// claims are shared: what the next pod asks for may differ.
func (b *batch) nothingChanged(s *segment, after *nodeRecord) bool {
	for _, e := range b.needs.open {
		if e.claim >= 0 {
			return false
		}
	}
	if b.needs.kind.shares && len(b.needs.used) > 0 {
		return false // the number of those who use a claim is limited
	}
	if after.facts.allocatable != nil || after.options != s.before.options || after.state != nil && !after.state.Uses.Same(s.before.state.Uses) {
		return false
	}
	return slices.EqualFunc(s.surroundings.Uses, b.sim.data.surroundings.Uses, onenode.Uses.Same)
}

// candidate is a node on which a pod fits.
type candidate struct {
	node   Node
	answer reply
	number int16
}

// Pack prefers the node with the largest fraction of devices in use, Spread the one with the smallest.
var (
	Pack   = NodePolicy{score: func(c NodeClass) float64 { return c.InUse }, lasting: 1}
	Spread = NodePolicy{score: func(c NodeClass) float64 { return -c.InUse }, lasting: 2}
)

// LeastWaste prefers the node that loses least room for pods of the given shapes. The loss is the number of
// pods of each shape that no longer fit.
func LeastWaste(shapes ...*Shape) NodePolicy {
	return Score(func(c NodeClass) float64 {
		lost := 0.0
		for _, shape := range shapes {
			lost += float64(c.Room(shape) - c.RoomAfter(shape))
		}
		return -lost
	})
}

// choose returns the node that the policy prefers, nil if the pod fits on none.
func (b *batch) choose() (*candidate, error) {
	if found, err := b.chooseRanked(); found != nil || err != nil {
		return found, err
	}
	var best *candidate
	var highest float64
	scores := make(map[reply]float64)
	visit := func(n Node, rec *nodeRecord) (more bool, err error) {
		if b.perNode > 0 && b.counts[n] >= b.perNode {
			return true, nil // such a node is in a run of its own
		}
		a, number, err := b.needs.on(&b.call, &b.sim.data, n, rec)
		if err != nil {
			return false, err
		}
		if a.Fit != onenode.Fits {
			b.call.Note(a.Answer)
			return true, nil
		}
		if b.policy.score == nil {
			best = &candidate{n, a, number}
			return false, nil
		}
		score, known := scores[a]
		if !known {
			score = b.score(n, rec, a)
			scores[a] = score
		}
		if best == nil || score > highest {
			best, highest = &candidate{n, a, number}, score
		}
		return true, nil
	}
	for _, part := range b.on.list() {
		more, err := b.sim.data.visit(part, visit)
		if err != nil || !more {
			return best, err
		}
	}
	return best, nil
}

// admitted groups the real nodes of a set that admit pods and have the other resources for them. Nodes of one
// group have devices in the same state. Kinds of pods with equal demands share it.
type admitted struct {
	real  table.Table[nodeRecord] // as of the last update
	alike ranking.Groups[deviceClass]
}

// admittedKey is the key of Sim.admitted.
type admittedKey struct {
	*admission
	on *nodeSet
	// demands is a key of the pods' demands of CPU and other resources.
	demands string
}

// deviceClass is equal for nodes with equal answers and equal lasting scores.
type deviceClass struct {
	state   *onenode.State
	variant int16
}

// ranked caches the order in which a policy prefers the classes of nodes on which pods of a kind fit.
type ranked struct {
	of    *admitted
	order ranking.Order[deviceClass]
	// doubtful is set for good once the answer for a node is neither yes nor no.
	doubtful bool
}

// rankedKey is the key of Sim.ranked.
type rankedKey struct {
	kind    *podKind
	on      *nodeSet
	lasting int
}

// manyRanked is the largest number of entries of Sim.admitted and of Sim.ranked. If there are more, all are dropped.
const manyRanked = 16

// chooseRanked is choose for separate pods, real nodes, and a policy whose scores last. It looks only at nodes that
// changed since the last call, at one node of each new class, and at the chosen node. It returns nil if it does not
// apply.
func (b *batch) chooseRanked() (*candidate, error) {
	m := b.sim
	parts := b.on.list()
	if b.policy.lasting == 0 || b.perNode > 0 || m.world.options.Memory.Off || len(parts) != 1 || parts[0].template != nil || parts[0].list != nil || !b.needs.separate(b.call.Context) {
		return nil, nil //nolint:nilnil // the caller looks at all nodes
	}
	key := rankedKey{b.shape.kind, b.on.nodeSet, b.policy.lasting}
	of := b.admitted(parts[0])
	r := m.ranked[key]
	if r == nil || r.of != of {
		if r = (&ranked{of: of}); m.ranked == nil || len(m.ranked) >= manyRanked {
			m.ranked = make(map[rankedKey]*ranked)
		}
		m.ranked[key] = r
	}
	if err := r.follow(b); err != nil {
		delete(m.ranked, key)
		return nil, err
	}
	i, found := r.order.First(&of.alike)
	if !found || r.doubtful {
		return nil, nil //nolint:nilnil // the caller finds out why
	}
	rec := m.data.real.At(i)
	n := Node{index: i, name: rec.facts.Node.Name}
	a, number, err := b.needs.on(&b.call, &m.data, n, rec)
	if err != nil || a.Fit != onenode.Fits {
		return nil, err
	}
	return &candidate{n, a, number}, nil
}

// admitted returns the nodes of a set, with all changes so far.
func (b *batch) admitted(part nodesPart) *admitted {
	m, kind := b.sim, cmp.Or(b.shape.kind.whole, b.shape.kind)
	demands := memo.NewKey()
	for _, d := range kind.demands {
		demands.Number(d.Resource)
		demands.Number(int(d.Value))
	}
	key := admittedKey{kind.admission, b.on.nodeSet, string(demands.Bytes)}
	found := m.admitted[key]
	if found == nil {
		if found = new(admitted); m.admitted == nil || len(m.admitted) >= manyRanked {
			m.admitted = make(map[admittedKey]*admitted)
		}
		m.admitted[key] = found
	}
	found.follow(m, kind, part)
	return found
}

// follow regroups the nodes that changed.
func (f *admitted) follow(m *Sim, kind *podKind, part nodesPart) {
	d := &m.data
	f.alike.Resize(d.real.Len()) // nodes that were added may be gone with a Revert
	for i := range d.real.Changes(&f.real) {
		rec := d.real.At(i)
		if rec.gone || !part.keeps(rec) {
			f.alike.Drop(i)
			continue
		}
		number := m.world.admittedVariant(kind, rec.facts)
		if number < 0 || amounts.Room(rec.facts.allocatable, rec.used, kind.variantAt(number).demands, 1) == 0 {
			f.alike.Drop(i)
			continue
		}
		f.alike.Put(i, deviceClass{rec.state, number})
	}
	f.real = d.real
	m.edition = new(table.Edition) // what is written from now on does not change the nodes as they were
}

// follow scores the new classes of nodes.
func (r *ranked) follow(b *batch) error {
	d := &b.sim.data
	return r.order.Follow(&r.of.alike, func(i int) (float64, error) {
		rec := d.real.At(i)
		n := Node{index: i, name: rec.facts.Node.Name}
		a, _, err := b.needs.on(&b.call, d, n, rec)
		if err != nil {
			return 0, err
		}
		switch a.Fit {
		case onenode.Fits:
			return b.policy.score(NodeClass{Example: n, InUse: rec.inUse()}), nil // it lasts, so it is about no more than the node
		case onenode.Unfit:
		default:
			r.doubtful = true
		}
		return math.NaN(), nil
	})
}

// score returns the policy's score of a node.
func (b *batch) score(n Node, rec *nodeRecord, a reply) float64 {
	w, c := b.sim.world, b.call // a policy may keep functions; what they refer to lives on the heap
	before, after := *rec, a.Next()
	if o := a.options; o != nil {
		cheapest := o.cheapest()
		before, _ = rec.as(cheapest)
		then, _ := o.find(cheapest)
		after = then.state
	}
	facts := before.facts
	room := func(s *onenode.State) func(*Shape) int {
		return func(shape *Shape) int {
			shape, err := shape.in(w)
			if err != nil {
				return 0 // such pods fit nowhere
			}
			q := shape.kind.plain
			if len(shape.kind.extended) > 0 {
				number := w.admittedVariant(shape.kind, facts)
				if number < 0 {
					return 0
				}
				q = w.Question(append(specsOf(shape.kind.entries), shape.kind.variantAt(number).specs()...))
			}
			if q.Err != nil || len(q.Specs) == 0 {
				return 0
			}
			pods, _, _, err := w.Room(&c, s, q, onenode.Unlimited)
			if err != nil {
				return 0 // the context was cancelled, which the next question reports
			}
			return int(pods)
		}
	}
	score := b.policy.score(NodeClass{Example: n, InUse: before.inUse(), Room: room(before.state), RoomAfter: room(after)})
	b.call.Budget = c.Budget
	return score
}

// visit calls a function for the nodes of a part, once for each run of equal nodes, and once for a node without
// pods. It reports whether the function wants more.
func (d *version) visit(part nodesPart, visit func(Node, *nodeRecord) (bool, error)) (bool, error) {
	if part.template == nil {
		for i, rec := range d.realIn(part) {
			if more, err := visit(Node{index: i, name: rec.facts.Node.Name}, rec); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	}
	g := d.group(part.template)
	first := 0
	for i := range g.runs {
		if more, err := visit(Node{template: part.template, index: first}, &g.runs[i].nodeRecord); err != nil || !more {
			return false, err
		}
		first += g.runs[i].count
	}
	if part.freshNodes(g) <= 0 {
		return true, nil
	}
	fresh := d.fresh(part.template)
	return visit(Node{template: part.template, index: first}, &fresh)
}
