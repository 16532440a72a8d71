// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// Sim is a State that changes. It is not safe for concurrent use, but any number of Sims may change
// at the same time.
type Sim struct {
	world *world
	data  version
	by    *table.Edition
	forks []fork
	// base is the State that the Sim comes from as long as nodes only filled up since, else nil.
	base *State
	// from is the State that the Sim was made from.
	from *State
	// firsts has, for pods that were placed, the first real node that may still take one. It holds
	// for as long as base would.
	firsts map[*podKind]int
	// rankings are of pods that were placed by a policy.
	rankings map[rankingKey]*ranking
	// nodeOf is where pods are, if anybody asked. It may be out of date.
	nodeOf map[types.NamespacedName]Node
}

// fork is what Revert returns to.
type fork struct {
	data version
	base *State
}

// State is what the Sim is now. It costs as much as copying a small struct.
func (m *Sim) State() *State {
	m.by = new(table.Edition)
	return &State{world: m.world, data: m.data}
}

// Fork marks a point to return to. Forks nest. It costs as much as copying a small struct, whatever
// the size of the cluster, and so do Commit and Revert.
func (m *Sim) Fork() {
	m.forks = append(m.forks, fork{m.data, m.base})
	m.by = new(table.Edition)
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
		m.by = new(table.Edition)
		m.freed()
		m.base = last.base
	}
}

// freed says that there may be room where there was none.
func (m *Sim) freed() { m.firsts, m.base = nil, nil }

// start is the first real node that may take a pod of a kind.
func (m *Sim) start(c *onenode.Call, k *podKind) (int, error) {
	if first, known := m.firsts[k]; known || m.base == nil {
		return first, nil
	}
	return m.base.firstWithRoom(c, k)
}

// look makes the read set of the Sim that of today.
func (m *Sim) look() {
	l := m.world.ReadSet()
	if m.data.readSet == l {
		return
	}
	m.data.readSet = l
	see := func(rec *nodeRecord) {
		if rec.options != nil {
			rec.options = rec.options.look(l)
			return
		}
		rec.state = rec.facts.State(l, rec.state.Uses)
	}
	for i := range m.data.real.Len() {
		see(m.data.real.Edit(i, m.by))
	}
	for i := range m.data.groups {
		g := m.group(m.data.groups[i].template)
		for j := range g.runs {
			see(&g.runs[j].nodeRecord)
		}
	}
}

// group returns the nodes of a template to be changed.
func (m *Sim) group(t *Template) *group {
	g := m.ownGroup(t)
	if g.owner != m.by {
		g.runs, g.owner = slices.Clone(g.runs), m.by
	}
	return g
}

// ownGroup returns the nodes of a template, of which the runs may be replaced, but not changed.
func (m *Sim) ownGroup(t *Template) *group {
	if m.data.groupsOf != m.by {
		m.data.groups, m.data.groupsOf = slices.Clone(m.data.groups), m.by
	}
	for i := range m.data.groups {
		if g := &m.data.groups[i]; g.template == t {
			return g
		}
	}
	m.data.groups = append(m.data.groups, group{template: t, owner: m.by})
	return &m.data.groups[len(m.data.groups)-1]
}

// Add adds n nodes of a template, without pods. It takes the same time whatever n is. Less than one
// adds none. The error is that the template is nil or one of another Open, or that the Sim has nodes of another
// template whose node has the same name; then nothing changed.
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

// edit returns a node to be changed. One of a template becomes one by itself.
func (m *Sim) edit(n Node) *nodeRecord {
	if n.template == nil {
		return m.data.real.Edit(n.index, m.by)
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

// Remove takes real nodes away with their slices and pods. Claims that only those pods used are
// free again. The error names a node that does not exist; then nothing changed.
func (m *Sim) Remove(nodes ...string) error {
	_, err := m.remove(nodes)
	return err
}

// remove returns the pods that were on the nodes.
func (m *Sim) remove(names []string) ([]*podEntry, error) {
	indices := make([]int, len(names))
	for i, name := range names {
		index, found := m.data.named(m.world, name)
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
		rec := m.data.real.Edit(index, m.by)
		rec.gone = true
		pods = append(pods, rec.pods.list()...)
	}
	for _, entry := range pods {
		m.release(entry)
	}
	return pods, nil
}

// release gives back what the claims of a pod hold that nobody else uses, but for the devices of the
// node on which the pod is.
func (m *Sim) release(entry *podEntry) {
	m.takeShared(entry.taken.Shared, false)
	for _, id := range entry.claims {
		rec := m.data.claims.Edit(int(id), m.by)
		rec.leave(m.world.consumer(id, entry.pod), m.by)
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

// takeShared takes devices of pools of several nodes, or gives them back.
func (m *Sim) takeShared(holdings []onenode.SharedHolding, take bool) {
	if len(holdings) == 0 {
		return
	}
	m.data.around = m.data.around.Change(holdings, take)
	if !take {
		m.freed()
	}
}

// Taint puts a taint on devices, as a DeviceTaintRule would: no pod that does not tolerate it gets
// them from now on. Pods that have them stay. It takes time in proportion to the devices and to what
// is on their nodes. The error names a device that no slice lists; then nothing changed.
func (m *Sim) Taint(taint resourceapi.DeviceTaint, devices iter.Seq[pools.DeviceID]) error {
	m.look()
	own := make(map[int][]int32)
	shared := make(map[pools.DeviceID][]resourceapi.DeviceTaint)
	for id := range devices {
		if _, found := m.data.around.Shared.Holding(id, onenode.Holding{}); found {
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
		rec := m.data.real.Edit(node, m.by)
		rec.facts = rec.facts.with(rec.facts.Tainted(positions, taint))
		rec.state = rec.facts.State(m.data.readSet, rec.state.Uses)
	}
	if len(shared) > 0 {
		tainted := onenode.NewSharedPools(m.world.gates, onenode.WithTaints(m.data.around.Shared.Published, shared))
		m.data.around = &onenode.Surroundings{Shared: tainted, Uses: m.data.around.Uses}
	}
	m.freed()
	return nil
}
