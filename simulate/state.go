package simulate

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// State is a cluster, what-if included. It is immutable and safe for concurrent use.
type State struct {
	world *world
	data  version
	// current is the State as a wider lens sees it.
	current atomic.Pointer[State]
	// firsts has the first real node with room by kind of pods: *podKind → int.
	firsts sync.Map
}

// version is what differs between States. Copying it makes a version of it, see table.
type version struct {
	lens   *lens
	real   table[nodeRecord]
	claims table[claimRecord]
	groups []group
	// groupsOf owns groups, and may write to it.
	groupsOf *edition
	surroundings
	// expected are devices of real nodes that are not published yet. It is replaced when it changes.
	expected []expectation
}

// surroundings are the pools of several nodes.
type surroundings struct {
	shared *sharedPools
	// sharedUses is what is in use of each of them. It is replaced when it changes.
	sharedUses []uses
}

// nodeRecord is a node as it is in a State. It is a value; what it points to is immutable.
type nodeRecord struct {
	inventory *inventory
	state     *nodeState
	used      []int64 // of resources, by number
	pods      *podEntry
	gone      bool
}

// podEntry is a pod on a node. The entries of a node are a list, newest first.
type podEntry struct {
	before *podEntry
	pod    *corev1.Pod
	kind   *podKind // nil for pods that ran when the cluster was read, until somebody asks
	// own and shared are what claims of the pod alone hold, claims the others.
	own    []holding
	shared []sharedHolding
	claims []int32
	// joins is set if the pod shares a claim, or its claims may hold devices of other nodes.
	joins bool
}

// list returns the pods of a node in the order in which they came.
func (e *podEntry) list() []*podEntry {
	var list []*podEntry
	for ; e != nil; e = e.before {
		list = append(list, e)
	}
	slices.Reverse(list)
	return list
}

// Node is a handle: a real node, or the n-th of a template. Names of the latter are made when asked
// for. Nodes are equal (==) if they are the same.
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
	return &Sim{world: s.world, by: new(edition), data: s.data, base: s, from: s}
}

// seen returns the State as the lens of today sees it.
func (s *State) seen() *State {
	l := s.world.lens.Load()
	if s.data.lens == l {
		return s
	}
	if known := s.current.Load(); known != nil && known.data.lens == l {
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
func (s *State) firstWithRoom(c *call, k *podKind) (int, error) {
	if known, ok := s.firsts.Load(k); ok {
		return known.(int), nil
	}
	seen := s.seen()
	d := &seen.data
	a := d.asked(s.world, k)
	first := 0
	for ; first < d.real.length; first++ {
		rec := d.real.at(first)
		if rec.gone {
			continue
		}
		answer, _, err := a.on(c, d, Node{index: first, name: rec.inventory.node.Name}, rec)
		if err != nil {
			return 0, err
		}
		if answer.verdict != unfit {
			break
		}
	}
	s.firsts.Store(k, first)
	return first, nil
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
	return nodeRecord{inventory: t.inventory, used: t.used, state: t.inventory.look(d.lens, d.shared.gates).content.fresh}
}

// record returns a node as it is. It is false if the node is gone, or was not added.
func (d *version) record(n Node) (nodeRecord, bool) {
	if n.template == nil {
		if n.index >= d.real.length {
			return nodeRecord{}, false
		}
		rec := *d.real.at(n.index)
		return rec, !rec.gone
	}
	g := d.group(n.template)
	if position, found := g.locate(n.index); found {
		return g.runs[position].nodeRecord, true
	}
	return d.fresh(n.template), n.index < g.total
}

// Node returns the handle of a real node. The error is that there is none of that name.
func (s *State) Node(name string) (Node, error) {
	index, found := s.world.byName[name]
	if !found {
		return Node{}, fmt.Errorf("node %s does not exist", name)
	}
	return Node{index: index, name: name}, nil
}

// Pods lists the pods on a real node, those that were placed last first.
func (s *State) Pods(n Node) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		rec, _ := s.data.record(n)
		for entry := rec.pods; entry != nil; entry = entry.before {
			if !yield(entry.pod) {
				return
			}
		}
	}
}

// InUse is which part of its devices is in use on a node, from 0 to 1. A device of which shares are
// in use counts as one. Devices of pools of several nodes do not count. It is 0 for a node without
// devices, and for one that is gone.
func (s *State) InUse(n Node) float64 {
	rec, found := s.data.record(n)
	if !found {
		return 0
	}
	return rec.inUse()
}

func (r *nodeRecord) inUse() float64 {
	if r.inventory.size == 0 {
		return 0
	}
	return float64(len(r.state.uses)) / float64(r.inventory.size)
}
