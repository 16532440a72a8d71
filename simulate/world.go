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

// family is what worlds have in common that differ in nothing but pods and claims: the rest of the input, and what is
// remembered. It is safe for concurrent use.
type family struct {
	*onenode.Asker
	options  Options
	gates    pools.Gates
	nodeFit  NodeFit      // complete
	anyNode  *corev1.Node // without anything, to find out whether a pod can be understood
	extended map[corev1.ResourceName]*resourceapi.DeviceClass
	// first is the world that was read whole.
	first *world

	nodes  []*nodeFacts // of real nodes
	byName map[string]int
	// published are the inventories without what is expected, devices is how many these have.
	published []*nodeFacts
	devices   int
	shared    *onenode.SharedPools // without what is simulated
	// rules are those of the input, patched the slices with their taints.
	rules   []*resourceapi.DeviceTaintRule
	patched map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice
	// poolNodes has the real node of each pool that one node has.
	poolNodes map[pools.PoolID]int

	resources *amounts.Resources
	// kindsBefore is what was known of the kinds of the world before.
	kindsBefore map[string]*kindBefore

	steps  *lru.Cache // reply about an undecided node, by stepKey
	counts atomic.Pointer[counts]
	// running are the kinds of pods that ran when the cluster was read, by the identity of their entry, once they are asked for.
	running sync.Map
	kinds   memo.Map[string, *podKind]
	// admissions are those of kinds without extended resources, by what the kinds ask of nodes.
	admissions memo.Map[string, *admission]

	mu       sync.Mutex
	claimIDs map[types.NamespacedName]int32
	// generated are the claims by number that do not exist yet, and that several pods will use.
	generated map[int32]*sharedClaim
}

// world is what all States of one version of the cluster have in common. It is safe for concurrent use.
type world struct {
	*family
	resolver *podclaims.Resolver
	faults   []Fault
	// unlisted are the claims that hold devices of a pool which no slice lists.
	unlisted map[pools.PoolID][]int32
	// claims are those that exist, by number.
	claims table.Table[sharedClaim]
	// leaving has what was found out last about the pods of each real node.
	leaving atomic.Pointer[[]*leaving]

	// root is the cluster as it was read, from input.
	root  *State
	input *input
	// podsOfWorld finds out where pods are.
	podsOfWorld func() *lists.Index
	// unsettled are pods on nodes of which claims do not exist, or are faulty.
	unsettled map[types.NamespacedName]bool
}

// manySteps is how many answers about undecided nodes are kept.
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

// nodeFacts are what was read of a node. They are immutable.
type nodeFacts struct {
	*onenode.Inventory
	// template is set for nodes that do not exist. The facts are those of all its nodes.
	template *Template
	// index is the position among real nodes.
	index int
	// allocatable is what the node has of each resource, by resource number; nil if unknown.
	allocatable []int64
}

// with is the node with other devices, or other taints on them.
func (n *nodeFacts) with(inv *onenode.Inventory) *nodeFacts {
	return &nodeFacts{Inventory: inv, template: n.template, index: n.index, allocatable: n.allocatable}
}

// at is the node at another position.
func (n *nodeFacts) at(index int) *nodeFacts {
	if n.index == index {
		return n
	}
	return &nodeFacts{Inventory: n.Inventory, index: index, allocatable: n.allocatable}
}

// Node is a handle: a real node, or the n-th of a template. Names of the latter are made when asked
// for. Handles from one State, and from Sims of it, are equal (==) if they are the same node. To any other State
// the handle of a real node means the node of that name there, if there is one, and that of a template a node
// which was not added. The zero value is no node.
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

// version is what differs between States. Copying it makes a version of it, see table.Table.
type version struct {
	readSet *onenode.ReadSet
	real    table.Table[nodeRecord]
	claims  table.Table[claimRecord]
	groups  []group
	// groupsOf owns groups, and may write to it.
	groupsOf *table.Edition
	around   *onenode.Surroundings
	// expected are devices of real nodes that are not published yet. It is replaced when it changes.
	expected []expectation
}

// expectation is that a node will have the devices of a template.
type expectation struct {
	node     string
	template *Template
}

// nodeRecord is a node as it is in a State. It is a value; what it points to is immutable.
type nodeRecord struct {
	nodeDevices
	used []int64 // of resources, by number
	pods *podEntry
	gone bool
}

// nodeDevices are the devices of a node as they are in a State.
type nodeDevices struct {
	facts *nodeFacts
	// state is nil for an undecided node. That one has options instead.
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

// record returns a node as it is. It is false if the node is gone, or was not added.
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

// fresh is a node of a template without pods.
func (d *version) fresh(t *Template) nodeRecord {
	if t.choice != nil {
		return nodeRecord{nodeDevices: nodeDevices{facts: t.facts, options: t.choice.start(d.readSet)}}
	}
	return nodeRecord{nodeDevices: nodeDevices{facts: t.facts, state: t.facts.State(d.readSet, nil)}, used: t.used}
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

// here is a handle as this version has it: a real node may be at another position than in the one that it is from.
func (d *version) here(w *world, n Node) Node {
	if n.template != nil || n.index < d.real.Len() && d.real.At(n.index).facts.Node.Name == n.name && !d.real.At(n.index).gone {
		return n
	}
	if index, found := d.named(w, n.name); found {
		return Node{index: index, name: n.name}
	}
	return Node{index: d.real.Len(), name: n.name}
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

// podEntry is a pod on a node. The entries of a node are a list, newest first.
type podEntry struct {
	before *podEntry
	// origin is the entry of which this is a copy, in a list that was made anew. It is nil for the first.
	origin *podEntry
	pod    *corev1.Pod
	kind   *podKind // nil for pods that ran when the cluster was read, until somebody asks
	// taken is what claims of the pod alone hold, claims are the others.
	taken  *onenode.Taken
	claims []int32
	// joins is set if the pod shares a claim, or its claims may hold devices of other nodes.
	joins bool
}

// nothing is what pods have taken that have no claims of their own, or ran when the cluster was read.
var nothing = new(onenode.Taken)

// list returns the pods of a node in the order in which they came.
func (e *podEntry) list() []*podEntry {
	var list []*podEntry
	for ; e != nil; e = e.before {
		list = append(list, e)
	}
	slices.Reverse(list)
	return list
}

// identity is the same for all copies of an entry.
func (e *podEntry) identity() *podEntry { return cmp.Or(e.origin, e) }

// ahead returns a copy of the entry that comes next to others in a list.
func (e *podEntry) ahead(before *podEntry) *podEntry {
	again := *e
	again.before, again.origin = before, e.identity()
	return &again
}

// identities are those of the entries of a list.
func (e *podEntry) identities() map[*podEntry]bool {
	set := make(map[*podEntry]bool)
	for ; e != nil; e = e.before {
		set[e.identity()] = true
	}
	return set
}

// without returns the list without some entries, which are given by their identity.
func (e *podEntry) without(gone func(*podEntry) bool) *podEntry {
	var newer []*podEntry
	rest := e // what stays as it is
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
