// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Update is the State of the real cluster after it changed: that of Open with the same Options, but
// what is derived from objects that did not change is kept. An object has changed if its pointer has.
// What was simulated is not part of it, except for what is expected: see Sim.Expect. Templates,
// Shapes and handles of real nodes can be used with the new State. The State itself stays as it is.
//
// It takes time in proportion to the lists, with a small factor, and to what changed: nodes with other
// slices are read again, what pods of known kinds ask for is not compiled again, and nodes in a state
// that was seen before are not searched again. The error is that of Open.
func (s *State) Update(c Cluster) (*State, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	before := s.world
	w := before.next(c.Classes)
	return w.read(&c, before, s.data.expected)
}

// next is a world without objects that knows what the one before it knows.
func (w *world) next(classes []*resourceapi.DeviceClass) *world {
	next := newWorld(w.options, w.Asker.Next(classes, len(w.nodes), w.devices))
	next.nodeFit, next.resources = w.nodeFit, w.resources
	next.kindsBefore = make(map[string]*kindBefore)
	for key, kind := range w.kinds.All {
		next.kindsBefore[key] = kind.known()
	}
	return next
}

// kindBefore is what is known of a kind in the world before. It does not refer to that world.
type kindBefore struct {
	variants []*variant
	byName   map[string]int
	nodes    []*nodeFacts
	onReal   []int16 // nil if nobody asked
}

// known is what the next world may take over.
func (k *podKind) known() *kindBefore {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := &kindBefore{variants: slices.Clip(k.variants), byName: k.world.byName, nodes: k.world.nodes}
	if onReal := k.onReal.Load(); onReal != nil {
		b.onReal = *onReal
	}
	return b
}

// on is the variant on a node, if that was known and the node is still the same.
func (b *kindBefore) on(node *corev1.Node) (variant int16, known bool) {
	if b == nil || b.onReal == nil {
		return 0, false
	}
	index, found := b.byName[node.Name]
	if !found || b.nodes[index].Node != node {
		return 0, false
	}
	return b.onReal[index], true
}

// withRules returns the slices with the taints of rules. What was patched before is not patched again.
func (w *world) withRules(c *Cluster, before *world) []*resourceapi.ResourceSlice {
	if !w.options.Features.DeviceTaints || len(c.TaintRules) == 0 {
		return c.Slices
	}
	w.rules, w.patched = c.TaintRules, make(map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice)
	all := slices.Clone(c.Slices)
	var fresh []*resourceapi.ResourceSlice
	var at []int
	for i, slice := range c.Slices {
		if before != nil && slices.Equal(before.rules, w.rules) && before.patched[slice] != nil {
			all[i] = before.patched[slice]
			continue
		}
		fresh, at = append(fresh, slice), append(at, i)
	}
	for i, patched := range podclaims.ApplyTaintRules(fresh, c.TaintRules) {
		all[at[i]] = patched
	}
	for i, slice := range c.Slices {
		w.patched[slice] = all[i]
	}
	return all
}

// factsBefore is what was read of a node, nil if node or slices are others now.
func (w *world) factsBefore(node *corev1.Node, published []*resourceapi.ResourceSlice) *nodeFacts {
	if w == nil {
		return nil
	}
	index, found := w.byName[node.Name]
	if !found || w.published[index].Node != node || !slices.Equal(w.published[index].Published, published) {
		return nil
	}
	return w.published[index]
}

// expectation is that a node will have the devices of a template.
type expectation struct {
	node     string
	template *Template
}

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
// from then on, but is not part of an Update. Allocated claims that have devices of it already take them.
//
// The error names a node that exists, a slice that is not of this node alone, or a pool that another node has; then nothing changed. It takes time
// in proportion to the devices of the node, and the nodes that were added.
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
		Inventory: onenode.NewInventory(node, published, onenode.ReadPools(w.gates, published)), index: m.data.real.Len(), allocatable: w.amounts(node.Status.Allocatable),
	}
	rec := m.data.real.Edit(facts.index, m.by)
	rec.facts = facts
	held := m.heldOn(rec, Node{index: facts.index, name: node.Name})
	rec.state = facts.State(m.data.readSet, onenode.Uses(nil).Change(held, true))
	return nil // there is no more room on the nodes before it
}

// named is the position of the real node of a name, one that was removed only if there is no other.
func (d *version) named(w *world, name string) (index int, found bool) {
	for i := d.real.Len() - 1; i >= len(w.nodes); i-- { // those that were added
		if d.real.At(i).facts.Node.Name == name && !d.real.At(i).gone {
			return i, true
		}
	}
	index, found = w.byName[name]
	return index, found
}

// hasPool finds out whose pool one is that is there.
func (d *version) hasPool(w *world, id pools.PoolID) (of string, found bool) {
	for i := range d.around.Shared.Pools {
		if d.around.Shared.Pools[i].ID == id {
			return "several nodes", true
		}
	}
	has := func(node int) bool {
		rec := d.real.At(node)
		return !rec.gone && slices.ContainsFunc(rec.facts.Pools, func(p onenode.OwnPool) bool { return p.ID == id })
	}
	nodes := []int{}
	if node, known := w.poolNodes[id]; known {
		nodes = append(nodes, node)
	}
	for _, e := range d.expected {
		if node, known := d.named(w, e.node); known {
			nodes = append(nodes, node)
		}
	}
	for node := len(w.nodes); node < d.real.Len(); node++ {
		nodes = append(nodes, node)
	}
	if i := slices.IndexFunc(nodes, has); i >= 0 {
		return "node " + d.real.At(nodes[i]).facts.Node.Name, true
	}
	return "", false
}

// heldOn finds what claims hold of devices of a node that were not listed before.
func (m *Sim) heldOn(rec *nodeRecord, node Node) []onenode.Holding {
	var all []onenode.Holding
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
	return inv.with(onenode.NewInventory(inv.Node, more, onenode.ReadPools(w.gates, more)))
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

// deviceOfNode finds a device that one real node has, or is expected to have.
func (d *version) deviceOfNode(w *world, id pools.DeviceID) (node int, position int32, found bool) {
	if node, found = w.poolNodes[id.PoolID()]; found && !d.real.At(node).gone {
		position, found = d.real.At(node).facts.Position(id)
		return node, position, found
	}
	for _, e := range d.expected {
		node, _ = d.named(w, e.node)
		if position, found = d.real.At(node).facts.Position(id); found {
			return node, position, true
		}
	}
	for node = len(w.nodes); node < d.real.Len(); node++ {
		if d.real.At(node).gone {
			continue
		}
		if position, found = d.real.At(node).facts.Position(id); found {
			return node, position, true
		}
	}
	return 0, 0, false
}
