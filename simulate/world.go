// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/lists"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// family is shared by worlds whose inputs differ in pods and claims only: the rest of the input, and the
// caches. It is safe for concurrent use.
type family struct {
	*onenode.Asker
	options  Options
	gates    pools.Gates
	nodeFit  NodeFit      // complete: both functions are set
	anyNode  *corev1.Node // an empty node, to find out whether a pod is valid
	extended map[corev1.ResourceName]*resourceapi.DeviceClass
	// first is the world that was read as a whole. Others follow from it by changes.
	first *world

	nodes  []*nodeFacts // of real nodes
	byName map[string]int
	// published are the nodes without expected devices. devices is the number of devices of nodes.
	published []*nodeFacts
	devices   int
	shared    *onenode.SharedPools // as read, without simulated changes
	// rules are the taint rules of the input, nil if there are none. patched has each slice with the taints that the
	// rules add.
	rules   *taintRules
	patched map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice
	// poolNodes has the real node of each pool that belongs to a single node.
	poolNodes map[pools.PoolID]int

	resources *amounts.Resources
	// kindsBefore has what the previous world knew about its kinds of pods, by key.
	kindsBefore map[string]*kindBefore

	steps  *lru.Cache // caches replies for undecided nodes, by stepKey
	counts atomic.Pointer[counts]
	// running caches the kinds of pods that ran when the cluster was read, by the identity of their entry.
	running sync.Map
	kinds   memo.Map[string, *podKind]
	// admissions are those of kinds without extended resources, by what the kinds ask of nodes.
	admissions memo.Map[string, *admission]

	// placesGangs is set in tests in which pods of gangs are not counted before they are placed.
	placesGangs bool

	mu       sync.Mutex
	claimIDs map[types.NamespacedName]int32
	// generated has the claims that do not exist yet and that several pods will use, by number.
	generated map[int32]*sharedClaim
}

// world is shared by all States of one version of the input. It is safe for concurrent use.
type world struct {
	*family
	resolver *podclaims.Resolver
	faults   []Fault
	// unlisted has, by pool, the claims that hold devices which no slice lists.
	unlisted map[pools.PoolID][]int32
	// claims are those that exist, by number.
	claims table.Table[sharedClaim]
	// leaving caches what was last found out about the pods of each real node.
	leaving atomic.Pointer[[]*leaving]

	// root is the State of the cluster as read from input.
	root  *State
	input *input
	// podsOfWorld returns the index of nodes by pod. It is nil if two pods have the same name.
	podsOfWorld func() *lists.Index
	// unsettled are the running pods with a claim that could not be resolved.
	unsettled map[types.NamespacedName]bool
}

// manySteps is the capacity of family.steps.
const manySteps = 1 << 10

func newWorld(o Options, asks *onenode.Asker) *world {
	w := &world{
		family: &family{
			Asker: asks, options: o, gates: o.Features.PoolGates(), anyNode: &corev1.Node{},
			byName: make(map[string]int), poolNodes: make(map[pools.PoolID]int),
			claimIDs: make(map[types.NamespacedName]int32), generated: make(map[int32]*sharedClaim), steps: lru.New(manySteps),
		},
		resolver: podclaims.NewResolver(nil), unlisted: make(map[pools.PoolID][]int32), unsettled: make(map[types.NamespacedName]bool),
	}
	w.first = w
	return w
}

func (w *world) fault(kind string, key types.NamespacedName, err error) {
	object := kind + " " + key.String()
	if key.Namespace == "" {
		object = kind + " " + key.Name
	}
	w.faults = append(w.faults, Fault{Object: object, Err: err})
}

// nodeFacts is what was read about a node. It is immutable.
type nodeFacts struct {
	*onenode.Inventory
	// template is set for nodes that do not exist. All nodes of the template share the facts.
	template *Template
	// index is the position in the list of real nodes.
	index int
	// allocatable is the node's capacity by resource number, nil if it is unknown.
	allocatable []int64
}

// with returns the facts with another inventory of devices.
func (n *nodeFacts) with(inv *onenode.Inventory) *nodeFacts {
	return &nodeFacts{Inventory: inv, template: n.template, index: n.index, allocatable: n.allocatable}
}

// at returns the facts with another position.
func (n *nodeFacts) at(index int) *nodeFacts {
	if n.index == index {
		return n
	}
	return &nodeFacts{Inventory: n.Inventory, index: index, allocatable: n.allocatable}
}

// Node is a handle of a real node, or of the n-th node of a template. Handles from one State, and from Sims of
// it, are equal (==) if they denote the same node. In any other State, the handle of a real node denotes the
// node of that name, if there is one. That of a template denotes a node that was not added there. The zero
// value is no node.
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

// Template returns the template of a node that does not exist, nil for a real node.
func (n Node) Template() *Template { return n.template }

// version is the part of a State that simulation changes. Copies share structure, see table.Table.
type version struct {
	readSet *onenode.ReadSet
	rules   *taintRules // those of the world, for nodes of templates
	real    table.Table[nodeRecord]
	claims  table.Table[claimRecord]
	groups  []group
	// groupsOf is the edition that owns groups and may write to it.
	groupsOf     *table.Edition
	surroundings *onenode.Surroundings
	// expected are devices that real nodes do not publish yet. The list is copied on write.
	expected []expectation
}

// expectation says that a real node will have the devices of a template.
type expectation struct {
	node     string
	template *Template
}

// nodeRecord is the state of a node in a version. It is a value; what it points to is immutable.
type nodeRecord struct {
	nodeDevices
	used []int64 // resources in use, by number
	pods *podEntry
	gone bool
}

// nodeDevices are a node's devices and their use.
type nodeDevices struct {
	facts *nodeFacts
	// state is nil for an undecided node, which has options instead.
	state   *onenode.State
	options *options
}

func (r *nodeRecord) inUse() float64 {
	if o := r.options; o != nil {
		one, _ := r.as(o.cheapest())
		return one.inUse()
	}
	if r.facts.Size == 0 {
		return 0
	}
	return float64(len(r.state.Uses)) / float64(r.facts.Size)
}

// record returns the record of a node. It is false if the node was removed, or never added.
func (d *version) record(n Node) (nodeRecord, bool) {
	if n.template == nil {
		if n.index >= d.real.Len() {
			return nodeRecord{}, false
		}
		rec := *d.real.At(n.index)
		return rec, !rec.gone
	}
	g := d.group(n.template)
	if position, found := g.locate(n.index); found {
		return g.runs[position].nodeRecord, true
	}
	return d.fresh(n.template), n.index < g.total
}

// fresh returns the record of a node of a template without pods.
func (d *version) fresh(t *Template) nodeRecord {
	if t.choice != nil {
		return nodeRecord{nodeDevices: nodeDevices{facts: t.facts, options: t.choice.start(d.readSet, d.rules)}}
	}
	facts := t.under(d.rules)
	return nodeRecord{nodeDevices: nodeDevices{facts: facts, state: facts.State(d.readSet, t.held)}, used: t.used}
}

// group returns the nodes of a template, an empty group if none was added.
func (d *version) group(t *Template) *group {
	for i := range d.groups {
		if d.groups[i].template == t {
			return &d.groups[i]
		}
	}
	return &group{template: t}
}

// translate converts a handle of another version: the position of a real node may differ.
func (d *version) translate(w *world, n Node) Node {
	if n.template != nil || n.index < d.real.Len() && d.real.At(n.index).facts.Node.Name == n.name && !d.real.At(n.index).gone {
		return n
	}
	if index, found := d.realNamed(w, n.name); found {
		return Node{index: index, name: n.name}
	}
	return Node{index: d.real.Len(), name: n.name}
}

// realNamed returns the position of the real node of a name. A removed node is returned only if there is no other.
func (d *version) realNamed(w *world, name string) (index int, found bool) {
	for i := d.real.Len() - 1; i >= len(w.nodes); i-- { // nodes that AddNode added
		if d.real.At(i).facts.Node.Name == name && !d.real.At(i).gone {
			return i, true
		}
	}
	index, found = w.byName[name]
	return index, found
}

// deviceOfNode finds a device that belongs to one real node, or is expected there.
func (d *version) deviceOfNode(w *world, id pools.DeviceID) (node int, position int32, found bool) {
	if node, found = w.poolNodes[id.PoolID()]; found && !d.real.At(node).gone {
		position, found = d.real.At(node).facts.Position(id)
		return node, position, found
	}
	for _, e := range d.expected {
		node, _ = d.realNamed(w, e.node)
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

// podEntry is a pod on a node. The pods of a node are a linked list, newest first.
type podEntry struct {
	before *podEntry
	// origin is the first entry of the pod if this one is a copy in a rebuilt list, otherwise nil.
	origin *podEntry
	pod    *corev1.Pod
	kind   *podKind // nil for pods that ran when the cluster was read, see kindOfEntry
	// taken is what the pod's own claims hold. claims are the numbers of its other claims.
	taken  *onenode.Taken
	claims []int32
	// joins is set if the pod shares a claim, or if its claims may hold devices of other nodes.
	joins bool
}

// nothingTaken is the taken of pods without claims of their own, and of pods that ran when the cluster was read.
var nothingTaken = new(onenode.Taken)

// list returns the pods of a node, oldest first.
func (e *podEntry) list() []*podEntry {
	var list []*podEntry
	for ; e != nil; e = e.before {
		list = append(list, e)
	}
	slices.Reverse(list)
	return list
}

// identity returns the same entry for all copies of an entry.
func (e *podEntry) identity() *podEntry { return cmp.Or(e.origin, e) }

// ahead returns a copy of the entry in front of another list.
func (e *podEntry) ahead(before *podEntry) *podEntry {
	again := *e
	again.before, again.origin = before, e.identity()
	return &again
}

// identities returns the identities of the entries of a list.
func (e *podEntry) identities() map[*podEntry]bool {
	set := make(map[*podEntry]bool)
	for ; e != nil; e = e.before {
		set[e.identity()] = true
	}
	return set
}

// without returns the list without the entries whose identity is gone.
func (e *podEntry) without(gone func(*podEntry) bool) *podEntry {
	var newer []*podEntry
	rest := e // the tail that is shared with the old list
	for entry := e; entry != nil; entry = entry.before {
		if !gone(entry.identity()) {
			continue
		}
		for kept := rest; kept != entry; kept = kept.before {
			newer = append(newer, kept)
		}
		rest = entry.before
	}
	for _, entry := range slices.Backward(newer) {
		rest = entry.ahead(rest)
	}
	return rest
}

func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
