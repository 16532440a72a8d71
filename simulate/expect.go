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

	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Expect says that a real node, whether it is ready or not, will have the devices of a template as
// soon as its drivers publish them. Driver by driver, slices that are there win, complete or not:
// those of the node in the Cluster, then those that were expected before. Pools and slices are those
// of the template, with the name of the node in place of that of the template's node, or behind it if
// they do not have it. All else of the node is as it is, taints and resources included.
//
// Update keeps what is expected of nodes that still exist, until all drivers have published. The
// error is that there is no such node, or that the template is undecided; then nothing changed. It takes time in proportion to the
// devices of the node and the template.
func (m *Sim) Expect(node string, t *Template) error {
	index, found := m.data.named(m.world, node)
	if !found || m.data.real.At(index).gone {
		return fmt.Errorf("node %s does not exist", node)
	}
	if t == nil {
		return fmt.Errorf("node %s: the template is nil", node)
	}
	if t.of != m.world.resources {
		return fmt.Errorf("node %s: %w", node, t.strange())
	}
	if t.choice != nil {
		return fmt.Errorf("node %s cannot be expected to have the devices of %s: %w", node, t.name(), ErrUndecidedNode)
	}
	m.look()
	before := m.data.real.At(index).facts
	after := m.world.expect(before, m.data.around.Shared, t)
	m.data.expected = append(slices.Clip(m.data.expected), expectation{node, t})
	if after == before {
		return nil
	}
	rec := m.data.real.Edit(index, m.by)
	m.move(rec, before, after)
	rec.facts = after
	held := m.heldOn(rec, Node{index: index, name: node})
	rec.state = after.State(m.data.readSet, rec.state.Uses.Moved(before.Inventory, after.Inventory).Change(held, true))
	m.freed()
	return nil
}

// AddNode adds a real node, behind the others, with slices that its drivers have published. It is as any other real node
// from then on, but is not part of an Update. Allocated claims that have devices of it already take them, also where the devices were those
// of a node that was removed. Claims that were allocated for a node of its name that was removed can be used on it.
//
// The error names a node that exists, a slice that is not of this node alone, or a pool that another node has; then nothing changed. It takes time
// in proportion to the devices of the node, and the nodes that were added; and to all claims, if a node of its name or with one of its pools was removed.
func (m *Sim) AddNode(node *corev1.Node, published ...*resourceapi.ResourceSlice) error {
	if node == nil {
		return errors.New("the node is nil")
	}
	w := m.world
	if index, found := m.data.named(w, node.Name); found && !m.data.real.At(index).gone {
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
	m.look()
	if w.options.Features.DeviceTaints {
		published = podclaims.ApplyTaintRules(published, w.rules)
	}
	facts := &nodeFacts{
		Inventory: onenode.NewInventory(w.gates, node, published), index: m.data.real.Len(), allocatable: w.resources.Of(node.Status.Allocatable),
	}
	rec := m.data.real.Edit(facts.index, m.by)
	rec.facts = facts
	held := m.heldOn(rec, Node{index: facts.index, name: node.Name})
	rec.state = facts.State(m.data.readSet, onenode.Uses(nil).Change(held, true))
	return nil // there is no more room on the nodes before it
}

// hasPool finds out whose pool one is that is there.
func (d *version) hasPool(w *world, id pools.PoolID) (of string, found bool) {
	for i := range d.around.Shared.Pools {
		if d.around.Shared.Pools[i].ID == id {
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

// withPool lists the real nodes that have a pool, or had it when they were removed.
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
		for node := len(w.nodes); node < d.real.Len(); node++ { // those that were added
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

// succeeds reports whether a real node of the name of another, or with one of its pools, was removed.
func (d *version) succeeds(w *world, rec *nodeRecord) bool {
	if index, known := w.byName[rec.facts.Node.Name]; known && d.real.At(index).gone {
		return true
	}
	for node := len(w.nodes); node < d.real.Len(); node++ { // those that were added
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

// heldBefore finds what claims hold of devices of a node that were those of nodes that are gone. What they hold of other devices of these
// nodes stays there. Claims for a node of that name that is gone become claims for this one.
func (m *Sim) heldBefore(rec *nodeRecord, node Node) []onenode.Holding {
	if !m.data.succeeds(m.world, rec) {
		return nil
	}
	gone := func(n Node) bool { return n.template == nil && m.data.real.At(n.index).gone }
	var all []onenode.Holding
	for id := range m.data.claims.Len() {
		if tied := m.data.claims.At(id).tied; tied != nil && tied.name == node.name && gone(*tied) {
			m.data.claims.Edit(id, m.by).tied = &node
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
			m.data.claims.Edit(id, m.by).held = append(rest, heldOn{node: node, holdings: here})
			all = append(all, here...)
		}
	}
	return all
}

// heldOn finds what claims hold of devices of a node that were not listed before.
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
				claim := m.data.claims.Edit(int(id), m.by)
				claim.held = append(slices.Clip(claim.held), heldOn{node: node, holdings: found})
				claim.unlisted = slices.DeleteFunc(slices.Clone(claim.unlisted), func(t unlistedHolding) bool { return t.device.PoolID() == pool.ID })
				all = append(all, found...)
			}
		}
	}
	return all
}

// expect returns the node with the devices of drivers that have published nothing; the same one
// if there is no such driver.
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
			more = append(more, t.expected(slice, inv.Node.Name))
		}
	}
	if len(more) == len(inv.Published) {
		return inv
	}
	return inv.with(onenode.NewInventory(w.gates, inv.Node, more))
}

// expected is a slice of the template as a node of that name would have it.
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

// stillExpected are the templates of a node of which a driver has published nothing.
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

// move gives devices that pods and claims hold on a node the positions of a new inventory of it, which
// has all pools of the one before.
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
				claim := m.data.claims.Edit(id, m.by)
				claim.held = slices.Clone(claim.held)
				claim.held[i].holdings = onenode.MovedHoldings(held.holdings, before.Inventory, after.Inventory)
			}
		}
	}
}
