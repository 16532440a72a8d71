// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// Sim is a State that changes. It is not safe for concurrent use, but any number of Sims may change
// at the same time.
type Sim struct {
	world   *world
	data    version
	edition *table.Edition
	forks   []fork
	// base is the State that the Sim was made from, or nil once room may have become free. While it is set,
	// what has no room in base has none here.
	base *State
	// from is the State that the Sim was made from.
	from *State
	// firsts caches, by kind of pods, the first real node that may still take one. It is dropped together with
	// base.
	firsts map[*podKind]int
	// ranked caches the order of nodes for kinds of pods that a policy placed. admitted caches the nodes with room
	// in these orders, by class.
	ranked   map[rankedKey]*ranked
	admitted map[admittedKey]*admitted
	// nodeOf is the node of each pod, nil until find needs it. Entries can be stale.
	nodeOf map[types.NamespacedName]Node
}

// fork is what Revert restores.
type fork struct {
	data version
	base *State
}

// Sim starts a simulation from the State. It costs as much as copying a small struct.
func (s *State) Sim() *Sim {
	return &Sim{world: s.world, edition: new(table.Edition), data: s.data, base: s, from: s}
}

// withReadSet returns the State with the current read set. The read set grows when claims read devices' properties
// that none did before.
func (s *State) withReadSet() *State {
	l := s.world.ReadSet()
	if s.data.readSet == l {
		return s
	}
	if known := s.current.Load(); known != nil && known.data.readSet == l {
		return known
	}
	m := s.Sim()
	m.updateReadSet()
	next := m.State()
	s.current.Store(next)
	return next
}

// firstWithRoom returns the first real node that may take a pod without shared claims. The result is cached by
// kind.
func (s *State) firstWithRoom(c *onenode.Call, k *podKind) (int, error) {
	if known, ok := s.firsts.Get(k); ok {
		return known, nil
	}
	seen := s.withReadSet()
	d := &seen.data
	a := d.needsOf(s.world, k)
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
		if answer.Fit != onenode.Unfit {
			break
		}
	}
	s.firsts.Add(k, first, s.world.options.Memory.Kinds)
	return first, nil
}

// State returns the present state of the Sim. It costs as much as copying a small struct.
func (m *Sim) State() *State {
	m.edition = new(table.Edition)
	return &State{world: m.world, data: m.data}
}

// Fork marks a point to return to. Forks nest. It costs as much as copying a small struct, whatever
// the size of the cluster, and so do Commit and Revert.
func (m *Sim) Fork() {
	m.forks = append(m.forks, fork{m.data, m.base})
	m.edition = new(table.Edition)
}

// Commit keeps what was done since the last Fork, and forgets the Fork. Without one it does nothing.
func (m *Sim) Commit() {
	if n := len(m.forks); n > 0 {
		m.forks = m.forks[:n-1]
	}
}

// Revert undoes what was done since the last Fork, and forgets the Fork. Without one it does nothing.
func (m *Sim) Revert() {
	if n := len(m.forks); n > 0 {
		last := m.forks[n-1]
		m.data, m.forks = last.data, m.forks[:n-1]
		m.edition = new(table.Edition)
		m.freed()
		m.base = last.base
	}
}

// freed drops what is known about nodes without room, after something was released.
func (m *Sim) freed() { m.firsts, m.base = nil, nil }

// start returns the first real node that may take a pod of a kind, 0 if nothing is known.
func (m *Sim) start(c *onenode.Call, k *podKind) (int, error) {
	if first, known := m.firsts[k]; known || m.base == nil {
		return first, nil
	}
	return m.base.firstWithRoom(c, k)
}

// updateReadSet brings the Sim to the current read set.
func (m *Sim) updateReadSet() {
	l := m.world.ReadSet()
	if m.data.readSet == l {
		return
	}
	m.data.readSet = l
	see := func(rec *nodeRecord) {
		if rec.options != nil {
			rec.options = rec.options.withReadSet(l)
			return
		}
		rec.state = rec.facts.State(l, rec.state.Uses)
	}
	for i := range m.data.real.Len() {
		see(m.data.real.Edit(i, m.edition))
	}
	for i := range m.data.groups {
		g := m.group(m.data.groups[i].template)
		for j := range g.runs {
			see(&g.runs[j].nodeRecord)
		}
	}
}

// group returns the nodes of a template for writing.
func (m *Sim) group(t *Template) *group {
	g := m.ownGroup(t)
	if g.owner != m.edition {
		g.runs, g.owner = slices.Clone(g.runs), m.edition
	}
	return g
}

// ownGroup returns the nodes of a template for writing. The list of runs may be replaced, but not modified.
func (m *Sim) ownGroup(t *Template) *group {
	if m.data.groupsOf != m.edition {
		m.data.groups, m.data.groupsOf = slices.Clone(m.data.groups), m.edition
	}
	for i := range m.data.groups {
		if g := &m.data.groups[i]; g.template == t {
			return g
		}
	}
	m.data.groups = append(m.data.groups, group{template: t, owner: m.edition})
	return &m.data.groups[len(m.data.groups)-1]
}

// Add adds n nodes of a template, without pods. It takes the same time for any n. Less than one adds none. It
// is an error if the template is nil or of another Open, or if nodes of another template would have the same
// names. Then nothing changes.
func (m *Sim) Add(t *Template, n int) error {
	if t == nil {
		return errors.New("the template is nil")
	}
	if err := m.data.accepts(m.world, t); err != nil {
		return err
	}
	if n > 0 {
		g := m.ownGroup(t)
		g.total += min(n, math.MaxInt-g.total)
	}
	return nil
}

// Added counts the nodes of a template that the Sim has, and those among them that pods were placed
// on.
func (m *Sim) Added(t *Template) (all, used int) {
	g := m.data.group(t)
	return g.total, g.used
}

// edit returns a node for writing. A node of a template is split from its run.
func (m *Sim) edit(n Node) *nodeRecord {
	if n.template == nil {
		return m.data.real.Edit(n.index, m.edition)
	}
	g := m.group(n.template)
	if n.index >= g.used {
		fresh := m.data.fresh(n.template)
		if skipped := n.index - g.used; skipped > 0 {
			g.add(run{count: skipped, nodeRecord: fresh})
		}
		g.runs = append(g.runs, run{count: 1, nodeRecord: fresh})
		g.used = n.index + 1
		g.total = max(g.total, g.used)
	}
	position, _ := g.locate(n.index)
	before := 0
	for _, r := range g.runs[:position] {
		before += r.count
	}
	return &g.runs[g.split(position, n.index-before)].nodeRecord
}

// Remove removes real nodes with their slices and pods. Claims that no other pod uses are deallocated. The
// error names a node that does not exist; then nothing changes.
func (m *Sim) Remove(nodes ...string) error {
	_, err := m.remove(nodes)
	return err
}

// remove returns the pods that were on the nodes.
func (m *Sim) remove(names []string) ([]*podEntry, error) {
	indices := make([]int, len(names))
	for i, name := range names {
		index, found := m.data.realNamed(m.world, name)
		if !found || m.data.real.At(index).gone {
			return nil, fmt.Errorf("node %s does not exist", name)
		}
		if slices.Contains(indices[:i], index) {
			return nil, fmt.Errorf("node %s is named twice", name)
		}
		indices[i] = index
	}
	var pods []*podEntry
	for _, index := range indices {
		rec := m.data.real.Edit(index, m.edition)
		rec.gone = true
		pods = append(pods, rec.pods.list()...)
	}
	for _, entry := range pods {
		m.release(entry)
	}
	return pods, nil
}

// release deallocates the claims of a pod that nobody else uses. Devices of the pod's own claims on its node
// are not given back, as the caller removes that node or changes its state.
func (m *Sim) release(entry *podEntry) {
	m.takeShared(entry.taken.Shared, false)
	for _, id := range entry.claims {
		rec := m.data.claims.Edit(int(id), m.edition)
		rec.leave(m.world.consumer(id, entry.pod), m.edition)
		if rec.consumers.Len() > 0 || !rec.allocated {
			continue
		}
		for _, held := range rec.held {
			if _, found := m.data.record(held.node); found {
				on := m.edit(held.node)
				on.state = on.state.Change(held.holdings, false)
				m.freed()
			}
		}
		m.takeShared(rec.shared, false)
		rec.allocated, rec.held, rec.shared, rec.unlisted, rec.tied, rec.selector = false, nil, nil, nil, nil, nil
	}
}

// takeShared allocates or releases devices of pools that several nodes reach.
func (m *Sim) takeShared(holdings []onenode.SharedHolding, take bool) {
	if len(holdings) == 0 {
		return
	}
	m.data.surroundings = m.data.surroundings.Change(holdings, take)
	if !take {
		m.freed()
	}
}

// Taint puts a taint on devices, as a DeviceTaintRule would: no pod that does not tolerate it gets
// them from now on. Pods that have them stay. It takes time in proportion to the devices and to what
// is on their nodes. The error names a device that no slice lists; then nothing changed.
func (m *Sim) Taint(taint resourceapi.DeviceTaint, devices iter.Seq[pools.DeviceID]) error {
	m.updateReadSet()
	own := make(map[int][]int32)
	shared := make(map[pools.DeviceID][]resourceapi.DeviceTaint)
	for id := range devices {
		if _, found := m.data.surroundings.Shared.Holding(id, onenode.Holding{}); found {
			shared[id] = append(shared[id], taint)
			continue
		}
		node, position, found := m.data.deviceOfNode(m.world, id)
		if !found || m.data.real.At(node).gone {
			return fmt.Errorf("device %s does not exist", id)
		}
		own[node] = append(own[node], position)
	}
	for node, positions := range own {
		slices.Sort(positions)
		rec := m.data.real.Edit(node, m.edition)
		rec.facts = rec.facts.with(rec.facts.Tainted(positions, taint))
		rec.state = rec.facts.State(m.data.readSet, rec.state.Uses)
	}
	if len(shared) > 0 {
		tainted := onenode.NewSharedPools(m.world.gates, onenode.WithTaints(m.data.surroundings.Shared.Published, shared))
		m.data.surroundings = &onenode.Surroundings{Shared: tainted, Uses: m.data.surroundings.Uses}
	}
	m.freed()
	return nil
}

// Options lists the templates that a node can be of, the cheapest first, then in the order in which
// Any was given them. A node of any other template has that one, a real node none.
func (m *Sim) Options(n Node) []*Template {
	rec, found := m.data.record(m.data.translate(m.world, n))
	switch {
	case !found || n.template == nil:
		return nil
	case rec.options == nil:
		return []*Template{n.template}
	}
	o := rec.options
	var list []*Template
	for _, member := range o.members() {
		list = append(list, o.choice.members[member])
	}
	return list
}

// Decide says which of its options a node is. The node keeps its handle, name and pods, and is still
// one of the nodes of Any's template. Placement.As gives the claims of pods that were placed before.
// The error is that there is no such node, or that it cannot be of the template; then nothing changed.
func (m *Sim) Decide(n Node, t *Template) error {
	n = m.data.translate(m.world, n)
	rec, found := m.data.record(n)
	switch {
	case !found:
		return fmt.Errorf("node %s does not exist", n.Name())
	case rec.options == nil && t != nil && t == n.template:
		return nil
	case rec.options == nil:
		return fmt.Errorf("node %s is not undecided", n.Name())
	}
	only := rec.options.only(t)
	if only == nil {
		return fmt.Errorf("node %s cannot be of the template %s", n.Name(), t.name())
	}
	m.edit(n).options = only
	return nil
}

// NodeOf returns the node on which a pod is, and false if it is on none. It knows pods as Evict does, and takes the same
// time.
func (m *Sim) NodeOf(pod *corev1.Pod) (Node, bool) {
	if pod == nil {
		return Node{}, false
	}
	n, entry := m.find(pod)
	return n, entry != nil
}

// find returns the node on which a pod is, and its entry there, nil if it is on none.
func (m *Sim) find(pod *corev1.Pod) (Node, *podEntry) {
	if index, known := m.data.realNamed(m.world, pod.Spec.NodeName); known {
		n := Node{index: index, name: pod.Spec.NodeName}
		if entry := m.entryOn(n, pod); entry != nil {
			return n, entry
		}
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if n, known := m.nodeOf[key]; known {
		if entry := m.entryOn(n, pod); entry != nil {
			return n, entry
		}
	}
	m.locatePods()
	n, known := m.nodeOf[key]
	if !known {
		return Node{}, nil
	}
	return n, m.entryOn(n, pod)
}

// entryOn returns the entry of a pod on a node, nil if the pod is not on it.
func (m *Sim) entryOn(n Node, pod *corev1.Pod) *podEntry {
	rec, found := m.data.record(n)
	if !found {
		return nil
	}
	for entry := rec.pods; entry != nil; entry = entry.before {
		if samePod(entry.pod, pod) {
			return entry
		}
	}
	return nil
}

func samePod(a, b *corev1.Pod) bool {
	return a == b || a.Name == b.Name && a.Namespace == b.Namespace && (a.UID == b.UID || a.UID == "" || b.UID == "")
}

// placed records the node of a pod, if nodeOf is in use.
func (m *Sim) placed(pod *corev1.Pod, n Node) {
	if m.nodeOf != nil {
		m.nodeOf[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = n
	}
}

// locatePods records the nodes of all pods.
func (m *Sim) locatePods() {
	m.nodeOf = make(map[types.NamespacedName]Node)
	note := func(n Node, rec *nodeRecord) {
		for entry := rec.pods; entry != nil; entry = entry.before {
			m.placed(entry.pod, n)
		}
	}
	for i := range m.data.real.Len() {
		if rec := m.data.real.At(i); !rec.gone {
			note(Node{index: i, name: rec.facts.Node.Name}, rec)
		}
	}
	for i := range m.data.groups {
		g, first := &m.data.groups[i], 0
		for j := range g.runs {
			note(Node{template: g.template, index: first}, &g.runs[j].nodeRecord)
			first += g.runs[j].count
		}
	}
}
