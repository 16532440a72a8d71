package simulate

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
)

// Update is the State of the real cluster after it changed: that of Open with the same Options, but
// what is derived from objects that did not change is kept. An object has changed if its pointer has.
// What was simulated is not part of it, except for what is expected: see Sim.Expect. Templates and
// Shapes can be used with the new State; handles of nodes cannot. The State itself stays as it is.
//
// It takes time in proportion to the lists, with a small factor, and to what changed: nodes with other
// slices are read again, what pods of known kinds ask for is not compiled again, and nodes in a state
// that was seen before are not searched again. The error is that of Open.
func (s *State) Update(c Cluster) (*State, error) {
	before := s.world
	w := before.next()
	return w.read(&c, before, s.data.expected)
}

// next is a world without objects that knows what the one before it knows.
func (w *world) next() *world {
	next := newWorld(w.options)
	next.nodeFit, next.allocator, next.programs, next.interned = w.nodeFit, w.allocator, w.programs, w.interned
	next.interned.prune()
	l := w.lens.Load()
	if l.outgrown(len(w.nodes), w.devices) {
		l = l.again()
	}
	next.lens.Store(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	next.kindsBefore = make(map[string]*kindBefore, len(w.kinds))
	for key, kind := range w.kinds {
		next.kindsBefore[key] = kind.known()
	}
	return next
}

// interned are the numbers that all worlds of one Open give to equal things.
type interned struct {
	mu        sync.Mutex
	specs     map[string]*spec
	questions map[string]*question
	resources map[corev1.ResourceName]int
	classes   map[string]int
	numbers   int // given to specs, questions and classes so far
}

// maxInterned is how many specs, questions and classes are known before all are forgotten.
const maxInterned = 1 << 15

func newInterned() *interned {
	return &interned{
		specs: make(map[string]*spec), questions: make(map[string]*question),
		resources: map[corev1.ResourceName]int{corev1.ResourcePods: 0}, classes: make(map[string]int),
	}
}

// prune forgets if there is too much. Numbers are not given again.
func (i *interned) prune() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.specs)+len(i.questions)+len(i.classes) > maxInterned {
		clear(i.specs)
		clear(i.questions)
		clear(i.classes)
	}
}

// number is the next that nobody has.
func (i *interned) number() int {
	i.numbers++
	return i.numbers
}

// spare is how much more than what its cluster needs a lens may know.
const spare = 256

// outgrown reports whether a lens knows much more than what a cluster of that size needs.
func (l *lens) outgrown(nodes, devices int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.contents) > 2*nodes+spare || len(l.devices)+len(l.values) > 4*devices+spare
}

// again is a lens that sees the same and knows nothing.
func (l *lens) again() *lens {
	return &lens{
		all: l.all, expressions: l.expressions, domains: l.domains, constraints: l.constraints,
		sortedExpressions: l.sortedExpressions, sortedConstraints: l.sortedConstraints,
		devices: make(map[string]uint32), values: make(map[string]uint32), contents: make(map[string]*content),
	}
}

// addClasses numbers the classes, equal ones alike.
func (w *world) addClasses(c *Cluster) {
	w.classNumbers = make(map[string]int)
	for _, class := range c.Classes {
		text, err := class.Spec.Marshal()
		if err != nil {
			panic("class " + class.Name + " cannot be encoded: " + err.Error()) // it is plain data
		}
		w.classNumbers[class.Name] = w.interned.class(class.Name, text)
	}
}

func (i *interned) class(name string, text []byte) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := string(appendText(appendText(nil, name), string(text)))
	if i.classes[key] == 0 {
		i.classes[key] = i.number()
	}
	return i.classes[key]
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

// inventoryBefore is what was read of a node, nil if node or slices are others now.
func (w *world) inventoryBefore(node *corev1.Node, published []*resourceapi.ResourceSlice) *inventory {
	if w == nil {
		return nil
	}
	index, found := w.byName[node.Name]
	if !found || w.published[index].node != node || !slices.Equal(w.published[index].published, published) {
		return nil
	}
	return w.published[index]
}

// at returns the inventory for another position among the nodes.
func (inv *inventory) at(index int) *inventory {
	if inv.index == index {
		return inv
	}
	moved := &inventory{
		node: inv.node, index: index, published: inv.published, pools: inv.pools, size: inv.size, added: inv.added, allocatable: inv.allocatable,
	}
	moved.seen.Store(inv.seen.Load())
	moved.reached.Store(inv.reached.Load())
	return moved
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
	index, found := m.world.byName[node]
	if !found || m.data.real.At(index).gone {
		return fmt.Errorf("node %s does not exist", node)
	}
	if t.choice != nil {
		return fmt.Errorf("node %s cannot be expected to have the devices of %s: %w", node, t.name(), ErrUndecidedNode)
	}
	m.look()
	before := m.data.real.At(index).inventory
	after := m.world.expect(before, m.data.shared, t)
	m.data.expected = append(slices.Clip(m.data.expected), expectation{node, t})
	if after == before {
		return nil
	}
	rec := m.data.real.Edit(index, m.by)
	m.move(rec, before, after)
	rec.inventory = after
	held := m.heldOn(rec, Node{index: index, name: node})
	rec.state = after.look(m.data.lens, m.world.gates).content.state(rec.state.uses.moved(before, after).change(held, true))
	m.freed()
	return nil
}

// heldOn finds what claims hold of devices of a node that were not listed before.
func (m *Sim) heldOn(rec *nodeRecord, node Node) []holding {
	var all []holding
	for _, pool := range rec.inventory.pools {
		for _, id := range m.world.unlisted[pool.id] {
			var found []holding
			for _, t := range m.data.claims.At(int(id)).unlisted {
				if position, listed := rec.inventory.position(t.device); listed && t.device.PoolID() == pool.id {
					found = append(found, holding{device: position, share: t.shares > 0, consumed: t.consumed})
				}
			}
			if len(found) > 0 {
				claim := m.data.claims.Edit(int(id), m.by)
				claim.held = append(slices.Clip(claim.held), heldOn{node: node, holdings: found})
				claim.unlisted = slices.DeleteFunc(slices.Clone(claim.unlisted), func(t taken) bool { return t.device.PoolID() == pool.id })
				all = append(all, found...)
			}
		}
	}
	return all
}

// expect returns the inventory with the devices of drivers that have published nothing; the same one
// if there is no such driver.
func (w *world) expect(inv *inventory, shared *sharedPools, t *Template) *inventory {
	published := make(map[string]bool)
	for _, slice := range slices.Concat(inv.published, shared.published) {
		if ptr.Deref(slice.Spec.NodeName, "") == inv.node.Name {
			published[slice.Spec.Driver] = true
		}
	}
	more := slices.Clip(inv.slices())
	for _, slice := range t.published {
		if !published[slice.Spec.Driver] {
			more = append(more, t.expected(slice, inv.node.Name))
		}
	}
	if len(more) == len(inv.published) {
		return inv
	}
	after := newInventory(inv.node, more, readPools(w.gates, more))
	after.index, after.allocatable = inv.index, inv.allocatable
	return after
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
func (w *world) stillExpected(inv *inventory, shared *sharedPools, expected []expectation) (*inventory, []expectation) {
	var open []expectation
	for _, e := range expected {
		if e.node != inv.node.Name {
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
func (m *Sim) move(rec *nodeRecord, before, after *inventory) {
	if len(rec.state.uses) == 0 {
		return
	}
	var entries []*podEntry
	for entry := rec.pods; entry != nil; entry = entry.before {
		entries = append(entries, entry)
	}
	rec.pods = nil
	for _, entry := range slices.Backward(entries) {
		moved := *entry
		moved.before, moved.own = rec.pods, movedHoldings(entry.own, before, after)
		rec.pods = &moved
	}
	for id := range m.data.claims.Len() {
		for i, held := range m.data.claims.At(id).held {
			if held.node.template == nil && held.node.index == before.index {
				claim := m.data.claims.Edit(id, m.by)
				claim.held = slices.Clone(claim.held)
				claim.held[i].holdings = movedHoldings(held.holdings, before, after)
			}
		}
	}
}

func movedHoldings(list []holding, before, after *inventory) []holding {
	list = slices.Clone(list)
	for i := range list {
		list[i].device = after.positionOf(before, list[i].device)
	}
	return list
}

// moved returns the uses by the positions of another inventory. The order of pools is the same.
func (u uses) moved(before, after *inventory) uses {
	u = slices.Clone(u)
	for i := range u {
		u[i].device = after.positionOf(before, u[i].device)
	}
	return u
}

// deviceOfNode finds a device that one real node has, or is expected to have.
func (m *Sim) deviceOfNode(id pools.DeviceID) (node int, position int32, found bool) {
	if node, found = m.world.poolNodes[id.PoolID()]; found {
		position, found = m.data.real.At(node).inventory.position(id)
		return node, position, found
	}
	for _, e := range m.data.expected {
		node = m.world.byName[e.node]
		if position, found = m.data.real.At(node).inventory.position(id); found {
			return node, position, true
		}
	}
	return 0, 0, false
}

// positionOf is where a device of an inventory is in this one, which has its pool.
func (inv *inventory) positionOf(before *inventory, device int32) int32 {
	pool := before.pool(device)
	at, found := slices.BinarySearchFunc(inv.pools, pool.id, func(p ownPool, id pools.PoolID) int { return comparePools(p.id, id) })
	if !found {
		panic("pool " + pool.id.String() + " is gone from node " + inv.node.Name) // pools are only added
	}
	return inv.pools[at].first + device - pool.first
}
