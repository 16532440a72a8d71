// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/lists"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// Open reads a cluster. It takes time in proportion to the objects. The error is about an option, or names a
// faulty object: with Options.Strict any, else one that cannot be ignored.
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
	w.resources = amounts.NewResources()
	w.nodeFit = o.NodeFit.complete()
	return w.read(&c, nil, nil)
}

// Update returns the State of the real cluster after it changed. The result is that of Open with the same
// Options, but what was derived from unchanged objects is reused. An object has changed if its pointer has.
// Simulated changes are not part of it, except for Sim.Expect. Templates, Shapes and handles of real nodes can
// be used with the new State. The receiver does not change.
//
// It takes time in proportion to the lists, with a small factor, and to the changes. Nodes with other slices
// are read again. What pods of known kinds ask for is not compiled again. Nodes in a known state are not
// searched again. The error is that of Open.
func (s *State) Update(c Cluster) (*State, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	before := s.world
	w := before.next(c.Classes)
	return w.read(&c, before, s.data.expected)
}

// next returns a world without objects that reuses the caches of this one.
func (w *world) next(classes []*resourceapi.DeviceClass) *world {
	next := newWorld(w.options, w.Asker.Next(classes, len(w.nodes), w.devices))
	next.nodeFit, next.resources = w.nodeFit, w.resources
	next.kindsBefore = make(map[string]*kindBefore)
	for key, kind := range w.kinds.All {
		next.kindsBefore[key] = kind.known()
	}
	return next
}

// known returns what the next world may reuse of a kind.
func (k *podKind) known() *kindBefore {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := &kindBefore{variants: slices.Clip(k.variants), byName: k.world.byName, nodes: k.world.nodes}
	if onReal := k.onReal.Load(); onReal != nil {
		b.onReal = *onReal
	}
	return b
}

// read reads a cluster. It reuses what the previous world read from the same objects.
func (w *world) read(c *Cluster, before *world, expected []expectation) (*State, error) {
	w.extended = podclaims.ClassesByResource(c.Classes)
	published := w.withRules(c, before)
	d := &version{rules: w.rules}
	by := new(table.Edition)
	if err := w.addNodes(c, published, before, expected, d, by); err != nil {
		return nil, err
	}
	w.addClaims(c, w.addObjects(c), d, by)
	w.addPods(c, d, by)
	if w.options.Strict && len(w.faults) > 0 {
		return nil, w.faults[0]
	}
	w.input, w.root = newInput(c), &State{world: w, data: *d}
	w.podsOfWorld = sync.OnceValue(func() *lists.Index { return indexPods(d) })
	return w.root, nil
}

// addNodes reads nodes and slices.
func (w *world) addNodes(c *Cluster, published []*resourceapi.ResourceSlice, before *world, expected []expectation, d *version, by *table.Edition) error {
	own, shared := w.divide(published)
	if before != nil && slices.Equal(before.shared.Published, shared) {
		w.shared = before.shared
	} else {
		w.shared = onenode.NewSharedPools(w.gates, shared)
	}
	d.surroundings = &onenode.Surroundings{Shared: w.shared, Uses: make([]onenode.Uses, len(w.shared.Pools))}
	for i, node := range c.Nodes {
		if _, twice := w.byName[node.Name]; twice {
			return fmt.Errorf("node %s: there are two of that name", node.Name)
		}
		inv := before.factsBefore(node, own[node.Name])
		if inv == nil {
			inv = &nodeFacts{Inventory: onenode.NewInventory(w.gates, node, own[node.Name]), index: i, allocatable: w.resources.Of(node.Status.Allocatable)}
		}
		w.addNode(inv.at(i), expected, d, by)
	}
	return nil
}

// addNode appends a node, with the devices that are expected there.
func (w *world) addNode(inv *nodeFacts, expected []expectation, d *version, by *table.Edition) {
	w.byName[inv.Node.Name] = inv.index
	w.published = append(w.published, inv)
	inv, open := w.stillExpected(inv, d.surroundings.Shared, expected)
	d.expected = append(d.expected, open...)
	w.nodes, w.devices = append(w.nodes, inv), w.devices+int(inv.Size)
	for _, p := range inv.Pools {
		w.poolNodes[p.ID] = inv.index
	}
	d.real.Edit(inv.index, by).facts = inv
}

// factsBefore returns what was read about a node, nil if the node or its slices have changed.
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

// withRules returns the slices with the taints of the taint rules. Slices that the previous world patched are
// reused.
func (w *world) withRules(c *Cluster, before *world) []*resourceapi.ResourceSlice {
	if w.rules = w.readRules(c, before); w.rules == nil {
		return c.Slices
	}
	w.patched = make(map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice)
	all := slices.Clone(c.Slices)
	var fresh []*resourceapi.ResourceSlice
	var at []int
	for i, slice := range c.Slices {
		if before != nil && before.rules == w.rules && before.patched[slice] != nil {
			all[i] = before.patched[slice]
			continue
		}
		fresh, at = append(fresh, slice), append(at, i)
	}
	for i, patched := range w.rules.applied(fresh) {
		all[at[i]] = patched
	}
	for i, slice := range c.Slices {
		w.patched[slice] = all[i]
	}
	return all
}

// readRules returns the taint rules of the input, nil if there are none or the feature is off.
func (w *world) readRules(c *Cluster, before *world) *taintRules {
	if !w.options.Features.DeviceTaints || len(c.TaintRules) == 0 {
		return nil
	}
	list := slices.SortedStableFunc(slices.Values(c.TaintRules), byName)
	if before != nil && before.rules != nil && slices.Equal(before.rules.list, list) {
		return before.rules
	}
	return &taintRules{list}
}

// divide separates the slices of pools that belong to one node from all others, each in the order of their names: the
// lists of an informer have another order each time. A pool with an invalid node selector is left out.
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
	for _, list := range own {
		slices.SortStableFunc(list, byName)
	}
	slices.SortStableFunc(shared, byName)
	return own, shared
}

func byName[T metav1.Object](a, b T) int { return strings.Compare(a.GetName(), b.GetName()) }

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

// addObjects registers claim templates and pod groups. It returns what the templates ask for.
func (w *world) addObjects(c *Cluster) (specs []*onenode.Spec) {
	for _, template := range c.Templates {
		w.resolver.SetTemplate(template)
		claim := &resourceapi.ResourceClaim{ObjectMeta: template.Spec.ObjectMeta, Spec: template.Spec.Spec}
		claim.Namespace, claim.Name = template.Namespace, template.Name
		if made, err := w.claimOf(claim); err != nil {
			w.fault("ResourceClaimTemplate", lists.Key(template), err)
		} else {
			specs = append(specs, made.spec)
		}
	}
	for _, group := range c.PodGroups {
		w.resolver.SetGroup(group)
	}
	return specs
}

// addClaims reads claims and their allocations, and widens the read set to cover them and the other specs.
func (w *world) addClaims(c *Cluster, specs []*onenode.Spec, d *version, by *table.Edition) {
	w.claimIDs = make(map[types.NamespacedName]int32, len(c.Claims))
	held := make([][]onenode.Holding, len(w.nodes))
	seen := make(map[*onenode.Spec]bool)
	for _, claim := range c.Claims {
		w.resolver.SetClaim(claim)
		key := lists.Key(claim)
		if _, twice := w.claimIDs[key]; twice {
			w.fault("ResourceClaim", key, fmt.Errorf("there are two of that name"))
			continue
		}
		id := w.number(key)
		rec := d.claims.Edit(int(id), by)
		if s := w.readClaim(id, claim, rec, d, by); !seen[s] {
			seen[s] = true
			specs = append(specs, s)
		}
		for _, h := range rec.held {
			held[h.node.index] = append(held[h.node.index], h.holdings...)
		}
		for _, h := range rec.shared {
			d.surroundings.Uses[h.Pool] = d.surroundings.Uses[h.Pool].Change([]onenode.Holding{h.Holding}, true)
		}
	}
	w.Cover(specs, slices.DeleteFunc(slices.Clone(c.Classes), func(class *resourceapi.DeviceClass) bool { return class.Spec.ExtendedResourceName == nil })...)
	l := w.ReadSet()
	d.readSet = l
	for i, inv := range w.nodes {
		d.real.Edit(i, by).state = inv.State(l, onenode.Uses(nil).Change(held[i], true))
	}
}

// readClaim reads the claim with a number into its record, and returns its spec.
func (w *world) readClaim(id int32, claim *resourceapi.ResourceClaim, rec *claimRecord, d *version, by *table.Edition) *onenode.Spec {
	key := lists.Key(claim)
	made, err := w.claimOf(claim)
	if err != nil {
		w.fault("ResourceClaim", key, err)
	}
	*w.claims.Edit(int(id), by) = made
	if claim.DeletionTimestamp != nil {
		rec.unusable = fmt.Errorf("claim %s is being deleted", key)
	}
	if claim.Status.Allocation == nil {
		return made.spec
	}
	rec.allocated = true
	if s := claim.Status.Allocation.NodeSelector; s != nil {
		selector, err := nodeaffinity.NewNodeSelector(s)
		if err != nil {
			rec.unusable = fmt.Errorf("claim %s: status.allocation.nodeSelector: %w", key, err)
			w.fault("ResourceClaim", key, rec.unusable)
		}
		rec.selector = selector
	}
	w.hold(id, claim, rec, d)
	return made.spec
}

// hold finds the devices that an allocated claim holds. Devices that no slice lists have no effect until one
// does.
func (w *world) hold(number int32, claim *resourceapi.ResourceClaim, rec *claimRecord, d *version) {
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if result.AdminAccess != nil && *result.AdminAccess {
			continue
		}
		id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		h := onenode.Holding{Request: result.Request}
		if result.ShareID != nil && w.gates.ConsumableCapacity {
			h.Share, h.Consumed = true, result.ConsumedCapacity
		}
		if shared, found := d.surroundings.Shared.Holding(id, h); found {
			rec.shared = append(rec.shared, shared)
			continue
		}
		if index, position, found := d.deviceOfNode(w, id); found {
			h.Device = position
			at := slices.IndexFunc(rec.held, func(h heldOn) bool { return h.node.index == index })
			if at < 0 {
				at, rec.held = len(rec.held), append(rec.held, heldOn{node: Node{index: index, name: w.nodes[index].Node.Name}})
			}
			rec.held[at].holdings = append(rec.held[at].holdings, h)
			continue
		}
		rec.unlisted = append(rec.unlisted, unlistedHolding{id, h})
		w.unlisted[id.PoolID()] = append(w.unlisted[id.PoolID()], number)
	}
}

// addPods puts running pods on their nodes.
func (w *world) addPods(c *Cluster, d *version, by *table.Edition) {
	for _, pod := range c.Pods {
		if !nodefit.Occupies(pod) {
			continue
		}
		if node, found := w.nodeOf(pod); found {
			entry := w.enter(pod, node, d, by)
			rec := d.real.Edit(node, by)
			entry.before, rec.pods = rec.pods, entry
		}
	}
	w.reserveOthers(d, by)
}

// nodeOf returns the position of the node on which a pod runs. It is a fault if the node does not exist.
func (w *world) nodeOf(pod *corev1.Pod) (index int, known bool) {
	index, known = w.byName[pod.Spec.NodeName]
	if !known {
		w.fault("Pod", lists.Key(pod), fmt.Errorf("node %s, on which it runs, does not exist", pod.Spec.NodeName))
	}
	return index, known
}

// enter adds a pod to its claims, and its requests to the resources of a node. The caller puts the entry into
// the node's list.
func (w *world) enter(pod *corev1.Pod, node int, d *version, by *table.Edition) *podEntry {
	rec := d.real.Edit(node, by)
	entry := &podEntry{pod: pod, taken: nothingTaken}
	for _, podClaim := range pod.Spec.ResourceClaims {
		claim, err := w.resolver.Resolve(pod, podClaim)
		if err != nil {
			w.fault("Pod", lists.Key(pod), fmt.Errorf("spec.resourceClaims %s: %w", podClaim.Name, err))
			w.unsettled[lists.Key(pod)] = true
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
	rec.used = amounts.Add(rec.used, w.demandsOf(pod, rec.facts), 1)
	return entry
}

// use makes a running pod a consumer of the claim with a name, if that exists.
func (w *world) use(entry *podEntry, key types.NamespacedName, d *version, by *table.Edition) {
	id, claim := w.existing(key)
	if claim == nil {
		w.unsettled[lists.Key(entry.pod)] = true
		return
	}
	if slices.Contains(entry.claims, id) {
		return
	}
	rec := d.claims.Edit(int(id), by)
	rec.join(w.consumer(id, entry.pod), by)
	entry.claims = append(entry.claims, id)
	entry.joins = entry.joins || !rec.only(w.byName[entry.pod.Spec.NodeName])
}

// reserveOthers adds the consumers in status.reservedFor that are not pods of the cluster, for all claims.
func (w *world) reserveOthers(d *version, by *table.Edition) {
	for id := range w.claims.Len() {
		if claim := w.realClaim(int32(id)); claim != nil && len(claim.object.Status.ReservedFor) > 0 {
			reserveOthers(claim.object, d.claims.Edit(id, by), by)
		}
	}
}

// indexPods returns an index of the position of the node by pod. It is nil if two pods have the same name.
func indexPods(d *version) *lists.Index {
	read := make(map[types.NamespacedName]int32)
	for i := range d.real.Len() {
		for entry := d.real.At(i).pods; entry != nil; entry = entry.before {
			key := lists.Key(entry.pod)
			if _, twice := read[key]; twice {
				return nil
			}
			read[key] = int32(i)
		}
	}
	return lists.NewIndex(read)
}

// reserveOthers adds the consumers in status.reservedFor of a claim that are not pods of the cluster.
func reserveOthers(claim *resourceapi.ResourceClaim, rec *claimRecord, by *table.Edition) {
	type name struct{ resource, name string }
	known := make(map[name]types.UID)
	for consumer := range rec.consumers.All() {
		known[name{consumer.Resource, consumer.Name}] = consumer.UID
	}
	for _, consumer := range claim.Status.ReservedFor {
		if uid, found := known[name{consumer.Resource, consumer.Name}]; !found || uid != "" && uid != consumer.UID {
			rec.consumers.Add(consumer, by)
			rec.reserved = append(slices.Clip(rec.reserved), consumer)
		}
	}
}
