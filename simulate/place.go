// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Place puts one pod on a node and allocates its claims. The pod is restricted to nodes where its allocated
// claims can be used. Placing a pod again stands for another equal pod, which uses as much again. The result
// says whether the pod was placed. The error is about the pod or a template of the set, or is the context's.
// Then nothing changes.
func (m *Sim) Place(ctx context.Context, pod *corev1.Pod, on Nodes, p NodePolicy) (Result, error) {
	kind, err := m.world.kindOf(pod)
	if err != nil {
		return Result{}, err
	}
	return m.PlaceMany(ctx, &Shape{Pods: []*corev1.Pod{pod}, kind: kind, claims: m.world.resolver}, 1, on, p)
}

// PlaceMany places up to n pods of a shape, one after the other, as kube-scheduler would if it considered the
// nodes in the order of the policy. It begins with the pods of the Shape. If n is larger, further pods equal to
// the last one are placed. With FirstFit it takes time in proportion to the nodes, and to those that change.
// Equal nodes of a template are filled in one step. The error is about a template of the set, or is the
// context's. Then nothing changes.
func (m *Sim) PlaceMany(ctx context.Context, shape *Shape, n int, on Nodes, p NodePolicy) (Result, error) {
	if n == 1 {
		return m.place(ctx, shape, n, on, p) // nothing changes before the last step that can fail
	}
	m.Fork()
	result, err := m.place(ctx, shape, n, on, p)
	if err != nil {
		m.Revert()
		return Result{}, err
	}
	m.Commit()
	return result, nil
}

// place is PlaceMany, but some of the pods may be placed if there is an error.
func (m *Sim) place(ctx context.Context, shape *Shape, n int, on Nodes, p NodePolicy) (Result, error) {
	return m.placeSome(ctx, shape, n, 0, on, p)
}

// placeSome is place with a largest number of these pods on one node. Zero or less is no limit.
func (m *Sim) placeSome(ctx context.Context, shape *Shape, n, perNode int, on Nodes, p NodePolicy) (Result, error) {
	c, err := m.world.NewCall(ctx)
	if err != nil {
		return Result{}, err
	}
	if shape, err = shape.in(m.world); err != nil {
		return Result{}, err
	}
	m.updateReadSet()
	if on, err = on.fixed(m.world, &m.data); err != nil {
		return Result{}, err
	}
	b := &batch{sim: m, call: c, shape: shape, on: on, left: n, policy: p}
	if perNode > 0 {
		b.perNode, b.counts = perNode, make(map[Node]int)
	}
	if err := b.run(); err != nil {
		return Result{}, err
	}
	return b.result(n), nil
}

func (b *batch) run() error {
	d := &b.sim.data
	b.needs = d.needsOf(b.sim.world, b.shape.kind)
	if b.left <= 0 || b.needs.refused != nil {
		return nil //nolint:nilerr // no pod of the kind is placed, which the result says
	}
	separate := b.needs.separate(b.call.Context)
	if b.policy.score != nil || !separate {
		return b.oneByOne()
	}
	for _, part := range b.on.list() {
		if b.left == 0 {
			return nil
		}
		var err error
		if part.template == nil {
			err = b.fillReal(part)
		} else {
			err = b.fillNew(part)
		}
		if err != nil {
			return err
		}
	}
	b.doubtful = b.call.Doubts
	return nil
}

// fillReal places pods on real nodes in order.
func (b *batch) fillReal(part nodesPart) error {
	m, kind := b.sim, b.shape.kind
	start := 0
	if b.on.real() {
		var err error
		if start, err = m.start(&b.call, kind); err != nil {
			return err
		}
	}
	from := start
	for i := range m.data.realOf(part, from) {
		if b.left == 0 {
			break
		}
		rec := m.data.real.At(i)
		full := rec.gone
		if !full && part.keeps(rec) {
			var err error
			if full, err = b.fillNode(Node{index: i, name: rec.facts.Node.Name}, rec); err != nil {
				return err
			}
		}
		if full && start == i {
			start++
		}
	}
	if start > from && b.on.real() {
		m.first(kind, start)
	}
	return nil
}

// first caches that no real node before the given position has room.
func (m *Sim) first(k *podKind, node int) {
	if m.firsts == nil {
		m.firsts = make(map[*podKind]int)
	}
	m.firsts[k] = node
}

// fillNode places pods on one node until it has no room. full is set if it certainly has none.
func (b *batch) fillNode(n Node, rec *nodeRecord) (full bool, err error) {
	var s segment
	for b.left > 0 && (b.perNode == 0 || s.each < b.perNode) {
		if err := b.interrupted(b.left); err != nil {
			return false, err
		}
		a, number, err := b.needs.on(&b.call, &b.sim.data, n, rec)
		if err != nil {
			return false, err
		}
		if a.Fit != onenode.Fits {
			b.call.Note(a.Answer)
			full = a.Fit == onenode.Unfit
			break
		}
		if s.each == 0 {
			s = b.segment(n, rec)
		}
		rec = b.sim.take(b.needs, n, a, number, b.shape.pod(s.first+s.each))
		s.each++
		b.left--
	}
	if s.each > 0 {
		b.placed = append(b.placed, s)
	}
	return full, nil
}

// take puts a pod on a node.
func (m *Sim) take(a *podNeeds, n Node, ans reply, number int16, pod *corev1.Pod) *nodeRecord {
	m.placed(pod, n)
	entry := &podEntry{pod: pod, kind: cmp.Or(a.kind.whole, a.kind), joins: a.kind.shares}
	if a.kind.shares {
		m.allocate(a, n, ans.Answer, entry)
	} else {
		entry.taken = ans.Taken
	}
	m.takeShared(ans.Shared, true)
	rec := m.edit(n)
	rec.state, rec.options = ans.Next(), ans.options
	if rec.facts.allocatable != nil {
		rec.used = amounts.Add(rec.used, a.kind.variantAt(number).demands, 1)
	}
	if n.template == nil || a.kind.shares {
		entry.before = rec.pods
		rec.pods = entry
	}
	return rec
}

// allocate records the allocations of shared claims, and the pod as their consumer.
func (m *Sim) allocate(a *podNeeds, n Node, ans *onenode.Answer, entry *podEntry) {
	alone := new(onenode.Taken)
	entry.taken = alone
	for i, bound := range ans.Bound {
		own := splitHoldings(ans.Own, int32(i))
		var shared []onenode.SharedHolding
		for _, h := range ans.Shared {
			if h.Claim == int32(i) {
				shared = append(shared, h)
			}
		}
		id := a.claimOf(int32(i))
		if id < 0 {
			alone.Own, alone.Shared = append(alone.Own, own...), append(alone.Shared, shared...)
			continue
		}
		rec := m.data.claims.Edit(int(id), m.edition)
		rec.allocated, rec.shared, rec.held, rec.tied, rec.selector = true, shared, nil, nil, nil
		if len(own) > 0 {
			rec.held = []heldOn{{node: n, holdings: own}}
		}
		if bound.Node {
			rec.tied = &n
		} else {
			rec.selector = selectorOf(bound.Selector)
		}
	}
	for _, e := range a.kind.entries {
		if e.claim >= 0 {
			entry.claims = append(entry.claims, e.claim)
			m.data.claims.Edit(int(e.claim), m.edition).join(m.world.consumer(e.claim, entry.pod), m.edition)
		}
	}
}

// selectorOf compiles the node selector of an allocation. Nil means all nodes.
func selectorOf(result *resourceapi.AllocationResult) *nodeaffinity.NodeSelector {
	if result == nil || result.NodeSelector == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(result.NodeSelector)
	if err != nil {
		panic("an allocation has a node selector that does not parse: " + err.Error()) // selectors of slices were checked
	}
	return selector
}

// fillNew places pods on nodes of a template, equal ones in one step.
func (b *batch) fillNew(part nodesPart) error {
	m := b.sim
	g := m.data.group(part.template)
	before := b.left
	next := group{template: part.template, total: g.total, owner: m.edition, runs: make([]run, 0, len(g.runs)+2)}
	for i := range g.runs {
		if err := b.fillRun(&next, g.runs[i].nodeRecord, g.runs[i].count); err != nil {
			return err
		}
	}
	for most := part.freshNodes(g); most > 0 && b.left > 0; {
		fresh := m.data.fresh(part.template)
		n, _, err := b.needs.room(&b.call, &fresh, int64(b.left))
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		nodes := min(most, (b.left-1)/b.limited(n)+1)
		if err := b.fillRun(&next, fresh, nodes); err != nil {
			return err
		}
		most -= nodes
	}
	if b.left < before {
		next.total = max(next.total, next.used)
		*m.ownGroup(next.template) = next
	}
	return nil
}

// limited returns how many of the pods are placed on a node with room for n.
func (b *batch) limited(n int64) int {
	if b.perNode > 0 {
		return min(int(n), b.perNode)
	}
	return int(n)
}

// fillRun places pods on a run of equal nodes until they have no room, and adds the nodes to the group.
func (b *batch) fillRun(to *group, rec nodeRecord, nodes int) error {
	if b.left == 0 {
		to.add(run{count: nodes, nodeRecord: rec})
		return nil
	}
	n, _, err := b.needs.room(&b.call, &rec, int64(b.left))
	if err != nil {
		return err
	}
	each := b.limited(n)
	if each == 0 {
		to.add(run{count: nodes, nodeRecord: rec})
		return nil
	}
	full := min(nodes, b.left/each)
	if err := b.fillEach(to, rec, full, each); err != nil {
		return err
	}
	nodes -= full
	if rest := min(b.left, each); rest > 0 && nodes > 0 {
		if err := b.fillEach(to, rec, 1, rest); err != nil {
			return err
		}
		nodes--
	}
	if nodes > 0 {
		to.add(run{count: nodes, nodeRecord: rec})
	}
	return nil
}

// fillEach places the same number of pods on each of several equal nodes.
func (b *batch) fillEach(to *group, rec nodeRecord, nodes, each int) error {
	s := b.segment(Node{template: to.template, index: to.used}, &rec)
	s.nodes, s.each = nodes, each
	before := rec
	rec.used = slices.Clone(rec.used)
	for i := range each {
		if err := b.interrupted(i); err != nil {
			return err
		}
		a, number, err := b.needs.on(&b.call, &b.sim.data, s.node, &rec)
		if err != nil {
			return err
		}
		if a.Fit != onenode.Fits {
			// There was room a moment ago. The cached answer has been dropped, and the budget ran out.
			b.call.Note(a.Answer)
			to.add(run{count: nodes, nodeRecord: before})
			return nil
		}
		if rec.state, rec.options = a.Next(), a.options; rec.facts.allocatable != nil {
			rec.used = amounts.AddInPlace(rec.used, b.needs.kind.variantAt(number).demands, 1)
		}
		if a.Next() == s.before.state && a.options == s.before.options && rec.facts.allocatable == nil {
			break // no pod changes anything
		}
	}
	to.add(run{count: nodes, nodeRecord: rec})
	if b.placed == nil {
		b.placed = make([]segment, 0, 2) // full nodes, and one with the rest
	}
	b.placed = append(b.placed, s)
	b.left -= nodes * each
	return nil
}

// oneByOne chooses a node for each pod separately.
func (b *batch) oneByOne() error {
	for b.left > 0 {
		if err := b.interrupted(b.left); err != nil {
			return err
		}
		b.needs = b.sim.data.needsOf(b.sim.world, b.shape.kind)
		if b.needs.refused != nil {
			return nil //nolint:nilerr // it was noted when it was asked
		}
		b.call.Doubts = false
		found, err := b.choose()
		if err != nil {
			return err
		}
		if found == nil {
			b.doubtful = b.call.Doubts
			return nil
		}
		rec, _ := b.sim.data.record(found.node)
		s := b.segment(found.node, &rec)
		s.each = 1
		after := b.sim.take(b.needs, found.node, found.answer, found.number, b.shape.pod(b.count()))
		b.placed = append(b.placed, s)
		b.left--
		if b.perNode > 0 {
			b.counts[found.node]++
		}
		if b.counting && b.nothingChanged(&s, after) {
			b.endless = true
			return nil
		}
	}
	return nil
}

// allOrNothing undoes the changes of a call that does not place all its pods.
func (m *Sim) allOrNothing(place func() (Result, error)) (Result, error) {
	m.Fork()
	result, err := place()
	if err != nil || !result.All() {
		m.Revert()
		return result, err
	}
	m.Commit()
	return result, nil
}

func (b *batch) result(n int) Result {
	r := Result{Placed: b.count(), Err: b.call.Err, NotLookedAt: notLookedAt(nil, b.shape), segments: b.placed, world: b.sim.world}
	switch rest := max(0, n) - r.Placed; {
	case b.needs != nil && b.needs.refused != nil && rest > 0:
		r.Unfit, r.Err = rest, b.needs.refused
	case b.doubtful:
		r.Undecided = rest
	default:
		r.Unfit = rest
	}
	if rest := r.Unfit + r.Undecided; rest > 0 {
		r.unplaced = []unplaced{{state: b.sim.State(), shape: b.shape, on: b.on, pods: rest, perNode: b.perNode}}
	}
	return r
}
