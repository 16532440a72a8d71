// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Expect adds devices to a real node that its drivers will publish: those of the template. The node need not be
// ready: as long as devices are expected, taints that a node has while it starts are ignored, such as not-ready. For
// each driver, existing slices take precedence, complete or not: those of the node in the Cluster, then those
// expected before. In names of pools and slices, the node's name replaces that of the template's node, or is
// appended. Nothing else about the node changes, such as other taints and resources.
//
// Update keeps expected devices of nodes that still exist, until all their drivers have published. It is an
// error if there is no such node, or if the template is undecided. Then nothing changes. It takes time in
// proportion to the devices of the node and the template.
func (m *Sim) Expect(node string, t *Template) error {
	index, found := m.data.realNamed(m.world, node)
	if !found || m.data.real.At(index).gone {
		return fmt.Errorf("node %s does not exist", node)
	}
	if t == nil {
		return fmt.Errorf("node %s: the template is nil", node)
	}
	if t.of != m.world.resources {
		return fmt.Errorf("node %s: %w", node, t.errOtherOpen())
	}
	if t.choice != nil {
		return fmt.Errorf("node %s cannot be expected to have the devices of %s: %w", node, t.name(), ErrUndecidedNode)
	}
	m.updateReadSet()
	before := m.data.real.At(index).facts
	after := m.world.expect(before, m.data.surroundings.Shared, t)
	m.data.expected = append(slices.Clip(m.data.expected), expectation{node, t})
	if after == before {
		return nil
	}
	rec := m.data.real.Edit(index, m.edition)
	m.move(rec, before, after)
	rec.facts = after
	held := m.heldOn(rec, Node{index: index, name: node})
	rec.state = after.State(m.data.readSet, rec.state.Uses.Moved(before.Inventory, after.Inventory).Change(held, true))
	m.freed()
	return nil
}

// AddNode appends a real node with slices that its drivers have published. It is like any other real node, but
// Update drops it. Allocated claims with devices of it hold them at once, also if the devices belonged to a
// removed node. A claim that is bound to a removed node of the same name is bound to the new one.
//
// The error names a node that exists, a slice that is not for this node alone, or a pool that exists elsewhere.
// Then nothing changes. It takes time in proportion to the devices of the node and to the nodes added before.
// If a removed node had its name or one of its pools, it takes time in proportion to all claims, too.
func (m *Sim) AddNode(node *corev1.Node, published ...*resourceapi.ResourceSlice) error {
	if node == nil {
		return errors.New("the node is nil")
	}
	w := m.world
	if index, found := m.data.realNamed(w, node.Name); found && !m.data.real.At(index).gone {
		return fmt.Errorf("node %s exists", node.Name)
	}
	for i, slice := range published {
		if slice == nil {
			return fmt.Errorf("node %s: slice %d is nil", node.Name, i)
		}
		if ptr.Deref(slice.Spec.NodeName, "") != node.Name {
			return fmt.Errorf("node %s: slice %s: spec.nodeName is %q", node.Name, slice.Name, ptr.Deref(slice.Spec.NodeName, ""))
		}
		if other, found := m.data.hasPool(w, onenode.PoolOf(slice)); found {
			return fmt.Errorf("node %s: slice %s: pool %s is one of %s", node.Name, slice.Name, onenode.PoolOf(slice), other)
		}
	}
	m.updateReadSet()
	published = w.rules.applied(published)
	facts := &nodeFacts{
		Inventory: onenode.NewInventory(w.gates, node, published), index: m.data.real.Len(), allocatable: w.resources.Of(node.Status.Allocatable),
	}
	rec := m.data.real.Edit(facts.index, m.edition)
	rec.facts = facts
	held := m.heldOn(rec, Node{index: facts.index, name: node.Name})
	rec.state = facts.State(m.data.readSet, onenode.Uses(nil).Change(held, true))
	return nil // the nodes before it have no more room than they had
}

// hasPool returns who has a pool: a node, or several. It is false if the pool does not exist.
func (d *version) hasPool(w *world, id pools.PoolID) (of string, found bool) {
	for i := range d.surroundings.Shared.Pools {
		if d.surroundings.Shared.Pools[i].ID == id {
			return "several nodes", true
		}
	}
	for rec := range d.withPool(w, id) {
		if !rec.gone {
			return "node " + rec.facts.Node.Name, true
		}
	}
	return "", false
}

// withPool lists the real nodes that have a pool, removed ones included.
func (d *version) withPool(w *world, id pools.PoolID) iter.Seq[*nodeRecord] {
	return func(yield func(*nodeRecord) bool) {
		var nodes []int
		if node, known := w.poolNodes[id]; known {
			nodes = append(nodes, node)
		}
		for _, e := range d.expected {
			if node, known := w.byName[e.node]; known {
				nodes = append(nodes, node)
			}
		}
		for node := len(w.nodes); node < d.real.Len(); node++ { // nodes that AddNode added
			nodes = append(nodes, node)
		}
		for _, node := range nodes {
			rec := d.real.At(node)
			if slices.ContainsFunc(rec.facts.Pools, func(p onenode.OwnPool) bool { return p.ID == id }) && !yield(rec) {
				return
			}
		}
	}
}

// succeeds reports whether a removed real node had the name of a node, or one of its pools.
func (d *version) succeeds(w *world, rec *nodeRecord) bool {
	if index, known := w.byName[rec.facts.Node.Name]; known && d.real.At(index).gone {
		return true
	}
	for node := len(w.nodes); node < d.real.Len(); node++ { // nodes that AddNode added
		if other := d.real.At(node); other.gone && other.facts.Node.Name == rec.facts.Node.Name {
			return true
		}
	}
	for _, pool := range rec.facts.Pools {
		for other := range d.withPool(w, pool.ID) {
			if other.gone {
				return true
			}
		}
	}
	return false
}

// heldBefore moves holdings of a removed node's devices to the node that has these devices now, and returns
// them. Holdings of other devices stay with the removed node. Claims that were bound to a removed node of that
// name are bound to this one.
func (m *Sim) heldBefore(rec *nodeRecord, node Node) []onenode.Holding {
	if !m.data.succeeds(m.world, rec) {
		return nil
	}
	gone := func(n Node) bool { return n.template == nil && m.data.real.At(n.index).gone }
	var all []onenode.Holding
	for id := range m.data.claims.Len() {
		if tied := m.data.claims.At(id).tied; tied != nil && tied.name == node.name && gone(*tied) {
			m.data.claims.Edit(id, m.edition).tied = &node
		}
		var here []onenode.Holding
		var rest []heldOn
		for _, held := range m.data.claims.At(id).held {
			if !gone(held.node) {
				rest = append(rest, held)
				continue
			}
			before, left := m.data.real.At(held.node.index).facts, []onenode.Holding(nil)
			for _, h := range held.holdings {
				if position, listed := rec.facts.Position(before.DeviceID(h.Device)); listed {
					h.Device = position
					here = append(here, h)
				} else {
					left = append(left, h)
				}
			}
			if len(left) > 0 {
				rest = append(rest, heldOn{node: held.node, holdings: left})
			}
		}
		if len(here) > 0 {
			m.data.claims.Edit(id, m.edition).held = append(rest, heldOn{node: node, holdings: here})
			all = append(all, here...)
		}
	}
	return all
}

// heldOn returns what claims hold of devices of a node that were not listed there before, and updates the
// records of the claims.
func (m *Sim) heldOn(rec *nodeRecord, node Node) []onenode.Holding {
	all := m.heldBefore(rec, node)
	for _, pool := range rec.facts.Pools {
		for _, id := range m.world.unlisted[pool.ID] {
			var found []onenode.Holding
			for _, t := range m.data.claims.At(int(id)).unlisted {
				if position, listed := rec.facts.Position(t.device); listed && t.device.PoolID() == pool.ID {
					h := t.Holding
					h.Device = position
					found = append(found, h)
				}
			}
			if len(found) > 0 {
				claim := m.data.claims.Edit(int(id), m.edition)
				claim.held = append(slices.Clip(claim.held), heldOn{node: node, holdings: found})
				claim.unlisted = slices.DeleteFunc(slices.Clone(claim.unlisted), func(t unlistedHolding) bool { return t.device.PoolID() == pool.ID })
				all = append(all, found...)
			}
		}
	}
	return all
}

// expect returns the node with the expected devices of drivers that have published nothing. It returns its
// argument if there is no such driver.
func (w *world) expect(inv *nodeFacts, shared *onenode.SharedPools, t *Template) *nodeFacts {
	published := make(map[string]bool)
	for _, slice := range slices.Concat(inv.Published, shared.Published) {
		if ptr.Deref(slice.Spec.NodeName, "") == inv.Node.Name {
			published[slice.Spec.Driver] = true
		}
	}
	more := slices.Clip(inv.Slices())
	for _, slice := range t.published {
		if !published[slice.Spec.Driver] {
			more = append(more, w.rules.applied([]*resourceapi.ResourceSlice{t.expected(slice, inv.Node.Name)})...)
		}
	}
	if len(more) == len(inv.Published) {
		return inv
	}
	return inv.with(onenode.NewInventory(w.gates, asStarted(inv.Node), more))
}

// expected returns a slice of the template with the names that it would have on a node.
func (t *Template) expected(slice *resourceapi.ResourceSlice, node string) *resourceapi.ResourceSlice {
	rename := func(name string) string {
		if strings.Contains(name, t.spec.Node.Name) {
			return strings.Replace(name, t.spec.Node.Name, node, 1)
		}
		return name + "-" + node
	}
	named := slice.DeepCopy()
	named.Name, named.Spec.Pool.Name, named.Spec.NodeName = rename(slice.Name), rename(slice.Spec.Pool.Name), &node
	return named
}

// stillExpected returns the node with its expected devices, and the expectations that still add some.
func (w *world) stillExpected(inv *nodeFacts, shared *onenode.SharedPools, expected []expectation) (*nodeFacts, []expectation) {
	var open []expectation
	for _, e := range expected {
		if e.node != inv.Node.Name {
			continue
		}
		if after := w.expect(inv, shared, e.template); after != inv {
			inv, open = after, append(open, e)
		}
	}
	return inv, open
}

// move updates the positions of devices that pods and claims hold on a node. The new inventory of the node has
// all pools of the old one.
func (m *Sim) move(rec *nodeRecord, before, after *nodeFacts) {
	if len(rec.state.Uses) == 0 {
		return
	}
	var entries []*podEntry
	for entry := rec.pods; entry != nil; entry = entry.before {
		entries = append(entries, entry)
	}
	rec.pods = nil
	for _, entry := range slices.Backward(entries) {
		moved := entry.ahead(rec.pods)
		moved.taken = &onenode.Taken{Own: onenode.MovedHoldings(entry.taken.Own, before.Inventory, after.Inventory), Shared: entry.taken.Shared}
		rec.pods = moved
	}
	for id := range m.data.claims.Len() {
		for i, held := range m.data.claims.At(id).held {
			if held.node.template == nil && held.node.index == before.index {
				claim := m.data.claims.Edit(id, m.edition)
				claim.held = slices.Clone(claim.held)
				claim.held[i].holdings = onenode.MovedHoldings(held.holdings, before.Inventory, after.Inventory)
			}
		}
	}
}
