// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/lists"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// ConflictError says that two Sims changed the same object.
type ConflictError struct {
	// Object is the kind and name of a pool, pod, claim, node or template.
	Object string
}

// Error implements error.
func (c *ConflictError) Error() string { return c.Object + " was changed by both" }

// Merge applies the changes of another Sim of the same State. So goroutines can simulate with a Sim each, and
// one of them combines the changes. Results of both Sims stay valid. Conflicting changes are a *ConflictError.
// Both Sims changed the use or the taints of one pool, changed one claim, or put pods on nodes of one template.
// Or both added real nodes, or evicted one pod. Or one removed a node, or expects devices of it, that the other
// changed. Or the pods of both on a node exceed its other resources. Any other error says that the Sims were
// not made from the same State. After an error, nothing changes.
//
// The other Sim must not be in use meanwhile, and does not change. Merge takes time in proportion to what the
// other Sim changed, and to a hundredth of the nodes and claims. If the read set grew since, it takes time in
// proportion to all nodes.
func (m *Sim) Merge(other *Sim) error {
	if other == nil || m.from != other.from {
		return errors.New("the Sims do not come from the same State")
	}
	from := m.from.withReadSet()
	for m.data.readSet != from.data.readSet || other.data.readSet != from.data.readSet {
		m.updateReadSet()
		other.updateReadSet()
		from = m.from.withReadSet()
	}
	g := &merger{Sim: m, from: &from.data, other: &other.data}
	m.Fork()
	for _, step := range []func() error{g.sharedPools, g.nodes, g.claims, g.templates} {
		if err := step(); err != nil {
			m.Revert()
			return err
		}
	}
	m.data.expected = slices.Concat(m.data.expected, other.data.expected[len(from.data.expected):])
	m.Commit()
	if other.base == nil {
		m.freed()
	}
	return nil
}

// merger applies to a Sim how another one differs from their common State.
type merger struct {
	*Sim
	from, other *version
}

func (g *merger) nodes() error {
	for i := range g.other.real.Changes(&g.from.real) {
		if i >= g.from.real.Len() { // added by AddNode
			if added := g.other.real.At(i); i < g.data.real.Len() {
				return &ConflictError{"node " + added.facts.Node.Name}
			}
			*g.data.real.Edit(i, g.edition) = *g.other.real.At(i)
			continue
		}
		from, other := g.from.real.At(i), g.other.real.At(i)
		if other.same(from) {
			continue
		}
		mine := g.data.real.At(i)
		if mine.same(from) {
			*g.data.real.Edit(i, g.edition) = *other
			continue
		}
		both, err := g.node(from, mine, other)
		if err != nil {
			return err
		}
		*g.data.real.Edit(i, g.edition) = *both
	}
	return nil
}

func (r *nodeRecord) same(other *nodeRecord) bool {
	return r.facts == other.facts && r.state.Same(other.state) && r.options.same(other.options) && r.pods == other.pods && r.gone == other.gone && slices.Equal(r.used, other.used)
}

// node combines the changes of both Sims to one node.
func (g *merger) node(from, mine, other *nodeRecord) (*nodeRecord, error) {
	name := from.facts.Node.Name
	if mine.gone || other.gone || mine.facts.Size != from.facts.Size || other.facts.Size != from.facts.Size {
		return nil, &ConflictError{"node " + name}
	}
	both := *mine
	u := mine.state.Uses
	for i := range from.facts.Pools {
		p := &from.facts.Pools[i]
		if !changed(p, from, other) {
			continue
		}
		if changed(p, from, mine) {
			return nil, &ConflictError{"pool " + p.ID.String()}
		}
		first, last := u.Of(p)
		otherFirst, otherLast := other.state.Uses.Of(p)
		u = slices.Concat(u[:first], other.state.Uses[otherFirst:otherLast], u[last:])
	}
	for _, added := range other.facts.Added[len(from.facts.Added):] {
		both.facts = both.facts.with(both.facts.Tainted([]int32{added.Device}, added.Taint))
	}
	both.state = both.facts.State(g.data.readSet, u)
	for i := range max(len(mine.used), len(other.used)) {
		change := amountAt(other.used, i) - amountAt(from.used, i)
		demand := []amounts.Demand{{Resource: i, Value: change}}
		if change > 0 && amounts.Room(mine.facts.allocatable, mine.used, demand, 1) == 0 {
			return nil, &ConflictError{"node " + name}
		}
		both.used = amounts.Add(both.used, demand, 1)
	}
	if err := both.mergePods(from, mine, other); err != nil {
		return nil, err
	}
	return &both, nil
}

// mergePods applies the changes of the other Sim to the pods of a node. It is a conflict if both removed the
// same pod.
func (r *nodeRecord) mergePods(from, mine, other *nodeRecord) error {
	before, left, kept := from.pods.identities(), mine.pods.identities(), other.pods.identities()
	for _, entry := range from.pods.list() {
		if id := entry.identity(); !left[id] && !kept[id] {
			return &ConflictError{"pod " + entry.pod.Namespace + "/" + entry.pod.Name}
		}
	}
	r.pods = mine.pods.without(func(id *podEntry) bool { return before[id] && !kept[id] })
	for _, entry := range other.pods.list() {
		if !before[entry.identity()] {
			r.pods = entry.ahead(r.pods)
		}
	}
	return nil
}

func amountAt(list []int64, i int) int64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// changed reports whether the use of the pool's devices changed, or devices were tainted. A device that was
// released and allocated again is in use as before, whoever holds it.
func changed(p *onenode.OwnPool, from, to *nodeRecord) bool {
	a, b := from.state.Uses, to.state.Uses
	firstA, lastA := a.Of(p)
	firstB, lastB := b.Of(p)
	return !a[firstA:lastA].Equal(b[firstB:lastB]) || slices.ContainsFunc(to.facts.Added[len(from.facts.Added):], func(t onenode.AddedTaint) bool {
		return p.Has(t.Device)
	})
}

// sharedPools combines the changes of both Sims to pools of several nodes.
func (g *merger) sharedPools() error {
	base, other := g.from.surroundings.Shared, g.other.surroundings.Shared
	changed := func(d *version, position int) bool {
		return !d.surroundings.Uses[position].Equal(g.from.surroundings.Uses[position]) ||
			!slices.Equal(d.surroundings.Shared.Pools[position].Published, base.Pools[position].Published)
	}
	next := slices.Clone(g.data.surroundings.Uses)
	for position := range base.Pools {
		if !changed(g.other, position) {
			continue
		}
		if changed(&g.data, position) {
			return &ConflictError{"pool " + base.Pools[position].ID.String()}
		}
		next[position] = g.other.surroundings.Uses[position]
	}
	both := &onenode.Surroundings{Shared: g.data.surroundings.Shared, Uses: next}
	g.data.surroundings = both
	switch {
	case other == base:
	case both.Shared == base:
		both.Shared = other
	default:
		published := slices.Clone(both.Shared.Published)
		for i, slice := range other.Published {
			if slice != base.Published[i] {
				published[i] = slice
			}
		}
		both.Shared = onenode.NewSharedPools(g.world.gates, published)
	}
	return nil
}

func (g *merger) claims() error {
	for id := range g.other.claims.Changes(&g.from.claims) {
		from, other := g.from.claimRecord(id), g.other.claimRecord(id)
		if other.same(from) {
			continue
		}
		if !g.data.claimRecord(id).same(from) {
			return &ConflictError{fmt.Sprintf("claim %s", lists.Key(g.world.claimNumbered(int32(id)).object))}
		}
		mine := g.data.claims.Edit(id, g.edition)
		*mine = *other
		mine.consumers.Release() // the other Sim may still write to the list
	}
	return nil
}

// same reports whether a claim was not changed. Lists of holdings are replaced when they change, so pointers
// are compared.
func (r *claimRecord) same(other *claimRecord) bool {
	return r.allocated == other.allocated && r.consumers.Equal(&other.consumers) && r.selector == other.selector && r.tied == other.tied &&
		sameList(r.held, other.held) && sameList(r.shared, other.shared) && len(r.unlisted) == len(other.unlisted)
}

func (g *merger) templates() error {
	for i := range g.other.groups {
		other := &g.other.groups[i]
		from, mine := g.from.group(other.template), *g.data.group(other.template)
		more := other.total - from.total
		filled := !other.same(from)
		if filled && !mine.same(from) {
			return &ConflictError{"template " + other.template.spec.Node.Name}
		}
		if !filled && more == 0 {
			continue
		}
		if g.data.accepts(g.world, other.template) != nil {
			return &ConflictError{"template " + other.template.spec.Node.Name}
		}
		both := g.group(other.template)
		if both.total += more; filled {
			both.runs, both.used = slices.Clone(other.runs), other.used
		}
	}
	return nil
}

// same reports whether the runs of nodes are equal.
func (g *group) same(other *group) bool {
	return slices.EqualFunc(g.runs, other.runs, func(a, b run) bool { return a.count == b.count && a.nodeRecord.same(&b.nodeRecord) })
}
