// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// Cluster is input. Nil lists are empty. Objects are kept by pointer, not modified, and must not be
// modified by others as long as a State of the cluster is in use.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods with a node use their claims and the node's resources; without one they are pending.
	Pods   []*corev1.Pod
	Slices []*resourceapi.ResourceSlice
	// Claims may be allocated or not. Those who use them are the pods that refer to them, and
	// others that are listed in status.reservedFor.
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	Classes   []*resourceapi.DeviceClass
	PodGroups []*schedulingapi.PodGroup
	// TaintRules add taints to devices of the slices.
	TaintRules []*resourceapi.DeviceTaintRule
}

// DefaultBudget is how many search steps one call spends at most.
const DefaultBudget = 20 * allocator.DefaultBudget

// Options of a State.
type Options struct {
	Features allocator.Features
	// NodeFit tells whether a pod may run on a node whatever devices and resources the node has.
	NodeFit NodeFit
	// DevicePolicy and Topology are Policy and Topology of the allocator: which of the devices of a node
	// a pod gets. Nil is allocator.FirstFit, with the devices that kube-scheduler takes.
	DevicePolicy allocator.Remembered
	Topology     []resourceapi.FullyQualifiedName
	// Budget is how many search steps one call spends at most; equal nodes are searched once.
	// Nodes that are not searched are undecided. Zero or less is DefaultBudget.
	Budget int64
	// Strict makes the first fault of the input an error of Open. Otherwise what is faulty is left
	// out, and listed by State.Faults.
	Strict bool
	// Memory bounds what is remembered between calls.
	Memory MemoryOptions
	// RefuseNotLookedAt makes pods an error that ask for something which kube-scheduler looks at and a simulation does
	// not, see nodefit.NotLookedAt. Otherwise Result.NotLookedAt tells it.
	RefuseNotLookedAt bool
	// Extensions has claims ask for what their annotation says, too: see package extension.
	// kube-scheduler does not know it. A faulty annotation makes pods with the claim an error.
	Extensions bool
	// GangsOneByOne has Gang place pods one after the other only, and no gang of which the pods fit only together.
	GangsOneByOne bool
}

// MemoryOptions bound what all States of one Open, and of its updates, remember from one call to the next. What there would be
// too much of is forgotten. Answers do not depend on it, but for those that the budget ends. Of a number, zero or less is the
// default.
type MemoryOptions struct {
	// Off has nothing remembered but compiled expressions. It is for tests, and for those who want to know what
	// remembering saves.
	Off bool
	// Questions is how many different claims, and questions of several claims, are kept. The default is 32,768.
	Questions int
	// Kinds is how many kinds of pods are kept, with what is known of them for each node. The default is 4,096.
	Kinds int
	// Nodes is how many nodes are told apart by their devices. The default is 131,072.
	Nodes int
	// States is how many states of equal nodes are kept: what is in use. The default is 65,536.
	States int
	// Answers is how many answers are kept about one state. The default is 1,024, the least 32.
	Answers int
}

// usualMemory has the defaults. Tests change them.
var usualMemory = MemoryOptions{Questions: 1 << 15, Kinds: 1 << 12, Nodes: 1 << 17, States: 1 << 16, Answers: 1 << 10}

// withDefaults has defaults for what is not set, and no bounds that are off.
func (o MemoryOptions) withDefaults() MemoryOptions {
	if o.Off || usualMemory.Off {
		return MemoryOptions{Off: true}
	}
	for _, bound := range []struct {
		of      *int
		usually int
	}{
		{&o.Questions, usualMemory.Questions}, {&o.Kinds, usualMemory.Kinds},
		{&o.Nodes, usualMemory.Nodes}, {&o.States, usualMemory.States}, {&o.Answers, usualMemory.Answers},
	} {
		if *bound.of <= 0 {
			*bound.of = bound.usually
		}
	}
	return o
}

func (o MemoryOptions) bounds() onenode.Bounds {
	return onenode.Bounds{Questions: o.Questions, Nodes: o.Nodes, States: o.States, Answers: o.Answers}
}

// Fault is wrong input that was left out.
type Fault struct { //nolint:errname // a fault of the input, listed with others
	// Object is kind, namespace and name.
	Object string
	Err    error
}

// Error implements error.
func (f Fault) Error() string { return fmt.Sprintf("%s: %v", f.Object, f.Err) }

// Unwrap returns Err.
func (f Fault) Unwrap() error { return f.Err }

// world is what all States of one Open have in common: the input, and what is remembered. It is safe
// for concurrent use.
type world struct {
	*onenode.Asker
	options  Options
	gates    pools.Gates
	nodeFit  NodeFit      // complete
	anyNode  *corev1.Node // without anything, to find out whether a pod can be understood
	extended map[corev1.ResourceName]*resourceapi.DeviceClass
	resolver *podclaims.Resolver

	nodes  []*nodeFacts // of real nodes
	byName map[string]int
	faults []Fault
	// published are the inventories without what is expected, devices is how many these have.
	published []*nodeFacts
	devices   int
	shared    *onenode.SharedPools // without what is simulated
	// rules are those of the input, patched the slices with their taints.
	rules   []*resourceapi.DeviceTaintRule
	patched map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice
	// poolNodes has the real node of each pool that one node has.
	poolNodes map[pools.PoolID]int
	// unlisted are the claims that hold devices of a pool which no slice lists.
	unlisted map[pools.PoolID][]int32

	resources *resourceNumbers
	// specOf has the spec of claims and templates of the input.
	specOf map[*resourceapi.DeviceClaim]*onenode.Spec
	// kindsBefore is what was known of the kinds of the world before.
	kindsBefore map[string]*kindBefore

	steps  *lru.Cache // reply about an undecided node, by stepKey
	counts atomic.Pointer[counts]
	// leaving has what was found out last about the pods of each real node.
	leaving atomic.Pointer[[]*leaving]
	// running are the kinds of pods that ran when the cluster was read, by pod, once they are asked for.
	running sync.Map
	kinds   memo.Map[string, *podKind]

	mu       sync.Mutex
	claims   []*sharedClaim
	claimIDs map[types.NamespacedName]int32
}

// Open reads a cluster. It takes time in proportion to the objects. The error names an object of
// which the simulation cannot do without, an option, or, with Options.Strict, any object that is faulty.
func Open(c Cluster, o Options) (*State, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	o.Memory = o.Memory.withDefaults()
	asks, err := onenode.New(onenode.Options{Features: o.Features, DevicePolicy: o.DevicePolicy, Topology: o.Topology, Budget: o.Budget, Bounds: o.Memory.bounds()}, c.Classes)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	w := newWorld(o, asks)
	w.resources = newResourceNumbers()
	w.nodeFit = o.NodeFit.complete()
	return w.read(&c, nil, nil)
}

// check reports objects that are not there.
func (c *Cluster) check() error {
	for _, list := range []struct {
		of      string
		lacking bool
	}{
		{"node", slices.Contains(c.Nodes, nil)},
		{"pod", slices.Contains(c.Pods, nil)},
		{"slice", slices.Contains(c.Slices, nil)},
		{"claim", slices.Contains(c.Claims, nil)},
		{"claim template", slices.Contains(c.Templates, nil)},
		{"class", slices.Contains(c.Classes, nil)},
		{"pod group", slices.Contains(c.PodGroups, nil)},
		{"taint rule", slices.Contains(c.TaintRules, nil)},
	} {
		if list.lacking {
			return fmt.Errorf("a %s is nil", list.of)
		}
	}
	return nil
}

func newWorld(o Options, asks *onenode.Asker) *world {
	return &world{
		Asker: asks, options: o, gates: o.Features.PoolGates(), anyNode: &corev1.Node{}, resolver: podclaims.NewResolver(nil),
		byName: make(map[string]int), poolNodes: make(map[pools.PoolID]int), unlisted: make(map[pools.PoolID][]int32), specOf: make(map[*resourceapi.DeviceClaim]*onenode.Spec),
		claimIDs: make(map[types.NamespacedName]int32), steps: lru.New(manySteps),
	}
}

// read reads a cluster. What the world before read of the same objects is kept.
func (w *world) read(c *Cluster, before *world, expected []expectation) (*State, error) {
	w.extended = podclaims.ClassesByResource(c.Classes)
	d := &version{}
	by := new(table.Edition)
	if err := w.addNodes(c, before, expected, d, by); err != nil {
		return nil, err
	}
	w.addObjects(c, before)
	w.addClaims(c, d, by)
	w.addPods(c, d, by)
	if w.options.Strict && len(w.faults) > 0 {
		return nil, w.faults[0]
	}
	return &State{world: w, data: *d}, nil
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

// addNodes reads nodes and slices.
func (w *world) addNodes(c *Cluster, before *world, expected []expectation, d *version, by *table.Edition) error {
	own, shared := w.divide(w.withRules(c, before))
	if before != nil && slices.Equal(before.shared.Published, shared) {
		w.shared = before.shared
	} else {
		w.shared = onenode.NewSharedPools(w.gates, shared)
	}
	d.around = &onenode.Surroundings{Shared: w.shared, Uses: make([]onenode.Uses, len(w.shared.Pools))}
	var changed []*resourceapi.ResourceSlice
	known := make([]*nodeFacts, len(c.Nodes))
	nodeOf := make(map[pools.PoolID]string)
	for i, node := range c.Nodes {
		if known[i] = before.factsBefore(node, own[node.Name]); known[i] != nil {
			continue
		}
		for _, slice := range own[node.Name] {
			nodeOf[onenode.PoolOf(slice)] = node.Name
		}
		changed = append(changed, own[node.Name]...)
	}
	facts := make(map[string][]*onenode.PoolFacts)
	for _, f := range onenode.ReadPools(w.gates, changed) {
		facts[nodeOf[f.ID]] = append(facts[nodeOf[f.ID]], f)
	}
	for i, node := range c.Nodes {
		if _, twice := w.byName[node.Name]; twice {
			return fmt.Errorf("node %s: there are two of that name", node.Name)
		}
		inv := known[i]
		if inv == nil {
			inv = &nodeFacts{Inventory: onenode.NewInventory(node, own[node.Name], facts[node.Name]), index: i, allocatable: w.amounts(node.Status.Allocatable)}
		}
		w.addNode(inv.at(i), expected, d, by)
	}
	return nil
}

// addNode adds a node behind the others, with what is expected of it.
func (w *world) addNode(inv *nodeFacts, expected []expectation, d *version, by *table.Edition) {
	w.byName[inv.Node.Name] = inv.index
	w.published = append(w.published, inv)
	inv, open := w.stillExpected(inv, d.around.Shared, expected)
	d.expected = append(d.expected, open...)
	w.nodes, w.devices = append(w.nodes, inv), w.devices+int(inv.Size)
	for _, p := range inv.Pools {
		w.poolNodes[p.ID] = inv.index
	}
	d.real.Edit(inv.index, by).facts = inv
}

// divide tells the slices of pools that one node has from all others. Pools with a slice of which
// the node selection cannot be evaluated are left out.
func (w *world) divide(published []*resourceapi.ResourceSlice) (own map[string][]*resourceapi.ResourceSlice, shared []*resourceapi.ResourceSlice) {
	nodeOf := make(map[pools.PoolID]string)
	faulty := make(map[pools.PoolID]bool)
	const several = ""
	for _, slice := range published {
		id := onenode.PoolOf(slice)
		if err := checkSelectors(slice); err != nil {
			w.fault("ResourceSlice", types.NamespacedName{Name: slice.Name}, err)
			faulty[id] = true
		}
		node := several
		if slice.Spec.NodeName != nil {
			node = *slice.Spec.NodeName
		}
		if before, known := nodeOf[id]; known && before != node {
			node = several
		}
		nodeOf[id] = node
	}
	own = make(map[string][]*resourceapi.ResourceSlice)
	for _, slice := range published {
		id := onenode.PoolOf(slice)
		switch node := nodeOf[id]; {
		case faulty[id]:
		case node == several:
			shared = append(shared, slice)
		default:
			own[node] = append(own[node], slice)
		}
	}
	return own, shared
}

func checkSelectors(slice *resourceapi.ResourceSlice) error {
	if s := slice.Spec.NodeSelector; s != nil {
		if _, err := nodeaffinity.NewNodeSelector(s); err != nil {
			return fmt.Errorf("spec.nodeSelector: %w", err)
		}
	}
	for i := range slice.Spec.Devices {
		if s := slice.Spec.Devices[i].NodeSelector; s != nil {
			if _, err := nodeaffinity.NewNodeSelector(s); err != nil {
				return fmt.Errorf("spec.devices[%d].nodeSelector: %w", i, err)
			}
		}
	}
	return nil
}

// addObjects makes claims and templates known, and the read set as wide as they need it.
func (w *world) addObjects(c *Cluster, before *world) {
	var specs []*onenode.Spec
	seen := make(map[*onenode.Spec]bool)
	add := func(claim *resourceapi.ResourceClaim, devices *resourceapi.DeviceClaim) error {
		var s *onenode.Spec
		var err error
		if before != nil && w.SameClasses(before.Asker) {
			s = before.specOf[devices]
		}
		if s == nil {
			if s, err = w.specOfClaim(claim); err != nil {
				return err
			}
		}
		if w.specOf[devices] = s; !seen[s] {
			seen[s] = true
			specs = append(specs, s)
		}
		return nil
	}
	for _, template := range c.Templates {
		w.resolver.SetTemplate(template)
		claim := &resourceapi.ResourceClaim{ObjectMeta: template.Spec.ObjectMeta, Spec: template.Spec.Spec}
		claim.Namespace, claim.Name = template.Namespace, template.Name
		if err := add(claim, &template.Spec.Spec.Devices); err != nil {
			w.fault("ResourceClaimTemplate", types.NamespacedName{Namespace: template.Namespace, Name: template.Name}, err)
		}
	}
	for _, group := range c.PodGroups {
		w.resolver.SetGroup(group)
	}
	for _, claim := range c.Claims {
		w.resolver.SetClaim(claim)
		if err := add(claim, &claim.Spec.Devices); err != nil {
			w.fault("ResourceClaim", types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}, err)
		}
	}
	w.See(specs, slices.DeleteFunc(slices.Clone(c.Classes), func(class *resourceapi.DeviceClass) bool { return class.Spec.ExtendedResourceName == nil })...)
}

// addPods puts the pods that run on their nodes.
func (w *world) addPods(c *Cluster, d *version, by *table.Edition) {
	for _, pod := range c.Pods {
		if !nodefit.Occupies(pod) {
			continue
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		index, known := w.byName[pod.Spec.NodeName]
		if !known {
			w.fault("Pod", key, fmt.Errorf("node %s, on which it runs, does not exist", pod.Spec.NodeName))
			continue
		}
		rec := d.real.Edit(index, by)
		entry := &podEntry{pod: pod, taken: nothing, before: rec.pods}
		for _, podClaim := range pod.Spec.ResourceClaims {
			claim, err := w.resolver.Resolve(pod, podClaim)
			if err != nil {
				w.fault("Pod", key, fmt.Errorf("spec.resourceClaims %s: %w", podClaim.Name, err))
				continue
			}
			if claim == nil {
				continue
			}
			entry.joins = entry.joins || !isOfPod(podClaim, claim)
			w.use(entry, w.resolver.Key(pod, podClaim), d, by)
		}
		if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
			w.use(entry, types.NamespacedName{Namespace: pod.Namespace, Name: status.ResourceClaimName}, d, by)
		}
		rec.pods = entry
		fromDevices, _ := w.fromDevices(podclaims.ExtendedResources(pod), rec.facts.Node)
		rec.used = addAmounts(rec.used, w.needs(pod, fromDevices), 1)
	}
	w.reserveOthers(d, by)
}

// use makes a pod that runs a consumer of a claim, if there is one of that name.
func (w *world) use(entry *podEntry, key types.NamespacedName, d *version, by *table.Edition) {
	id, known := w.claimIDs[key]
	if !known || slices.Contains(entry.claims, id) {
		return
	}
	rec := d.claims.Edit(int(id), by)
	rec.join(w.consumer(id, entry.pod), by)
	entry.claims = append(entry.claims, id)
	entry.joins = entry.joins || !rec.only(w.byName[entry.pod.Spec.NodeName])
}
