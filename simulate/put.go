// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/subsets"
)

// Evict removes pods from their nodes, which stay. Claims that no other pod uses are deallocated; CPU and other
// resources are released. A pod is identified by namespace and name, and by UID if both have one. A pod that
// was placed several times leaves one of its nodes. The order of the pods does not matter. It takes time in
// proportion to the pods. If a pod is not on the node in its spec.nodeName, it may take time in proportion to
// all pods.
//
// The error names a pod that is on no node, or on an undecided one. Then nothing changes. Pods on nodes of a
// template cannot be evicted unless they share claims, as others are only counted.
func (m *Sim) Evict(pods ...*corev1.Pod) error {
	m.Fork()
	for _, pod := range pods {
		if err := m.evict(pod); err != nil {
			m.Revert()
			return err
		}
	}
	m.Commit()
	return nil
}

func (m *Sim) evict(pod *corev1.Pod) error {
	if pod == nil {
		return errors.New("a pod is nil")
	}
	n, entry := m.find(pod)
	if entry == nil {
		return fmt.Errorf("pod %s/%s is on no node", pod.Namespace, pod.Name)
	}
	if rec, _ := m.data.record(n); rec.options != nil {
		return fmt.Errorf("pod %s/%s is on node %s: %w", pod.Namespace, pod.Name, n.Name(), ErrUndecidedNode)
	}
	m.free(n, entry, m.world.demandsOf(entry.pod, m.edit(n).facts))
	id := entry.identity()
	rec := m.edit(n)
	rec.pods = rec.pods.without(func(other *podEntry) bool { return other == id })
	return nil
}

// free releases what a pod holds, with its demands on the node. The pod stays in its node's list.
func (m *Sim) free(n Node, entry *podEntry, demands []amounts.Demand) {
	m.edit(n).leave(entry.taken.Own, demands)
	m.release(entry)
	m.freed()
}

// leave gives back what a pod holds of the node's own devices, and its demands. The pod stays in the list.
func (r *nodeRecord) leave(holdings []onenode.Holding, demands []amounts.Demand) {
	r.state = r.state.Change(holdings, false)
	if r.facts.allocatable != nil {
		r.used = amounts.WithoutZeros(amounts.Add(r.used, demands, -1))
	}
}

// Put puts a pod on a node that the caller chose. With allocations, the caller also chose the devices: one
// allocation for each claim that is not allocated yet, in the order of the pod's spec, the one for extended
// resources last. Placement.Claims lists them in the same order. It is not checked then whether the pod may run
// there, whether CPU, counters and capacity suffice, or whether the devices match the claims. Without
// allocations, it is Place with that node alone. The result says whether the pod was placed.
//
// The error names a node that does not exist or is undecided, an invalid pod, or an allocation with a device
// that does not exist on the node or is in use; or it is the context's. Then nothing changes.
func (m *Sim) Put(ctx context.Context, pod *corev1.Pod, on Node, allocations ...resourceapi.AllocationResult) (Result, error) {
	kind, err := m.world.kindOf(pod)
	if err != nil {
		return Result{}, err
	}
	return m.putOn(ctx, &Shape{Pods: []*corev1.Pod{pod}, kind: kind, claims: m.world.resolver}, on, allocations)
}

// PutShape is Put for the first pod of a shape. It does not read the pod and its claims again, which is much of the time that
// Put takes.
func (m *Sim) PutShape(ctx context.Context, shape *Shape, on Node, allocations ...resourceapi.AllocationResult) (Result, error) {
	shape, err := shape.in(m.world)
	if err != nil {
		return Result{}, err
	}
	return m.putOn(ctx, shape, on, allocations)
}

// putOn is Put for the first pod of a shape.
func (m *Sim) putOn(ctx context.Context, shape *Shape, on Node, allocations []resourceapi.AllocationResult) (Result, error) {
	c, err := m.world.NewCall(ctx)
	if err != nil {
		return Result{}, err
	}
	m.updateReadSet()
	if on.template != nil {
		if err := m.data.accepts(m.world, on.template); err != nil {
			return Result{}, err
		}
	}
	on = m.data.translate(m.world, on)
	rec, found := m.data.record(on)
	switch {
	case !found:
		return Result{}, fmt.Errorf("node %s does not exist", on.Name())
	case rec.options != nil:
		return Result{}, fmt.Errorf("node %s: %w", on.Name(), ErrUndecidedNode)
	}
	b := &batch{sim: m, call: c, shape: shape, on: only(on), left: 1}
	b.needs = m.data.needsOf(m.world, shape.kind)
	if len(allocations) > 0 {
		if err := b.putGiven(on, &rec, allocations); err != nil {
			return Result{}, fmt.Errorf("pod %s on node %s: %w", shape.name(), on.Name(), err)
		}
		return b.result(1), nil
	}
	if b.needs.refused == nil {
		if _, err := b.fillNode(on, &rec); err != nil {
			return Result{}, err
		}
		b.doubtful = b.call.Doubts
	}
	return b.result(1), nil
}

// only returns the set of one existing node. For a node of a template, it is that of all existing nodes of the
// template.
func only(n Node) Nodes {
	if n.template != nil {
		return Added(n.template)
	}
	return Nodes{&nodeSet{parts: []nodesPart{{list: []int{n.index}}}}}
}

// putGiven puts the pod of the batch on a node with given allocations.
func (b *batch) putGiven(n Node, rec *nodeRecord, allocations []resourceapi.AllocationResult) error {
	m, a := b.sim, b.needs
	if a.refused != nil {
		return a.refused
	}
	for i := range a.used {
		if !a.used[i].admits(n, rec.facts.Node) {
			return errors.New("a claim of the pod is allocated, and cannot be used there")
		}
	}
	number := m.world.variantAnyway(a.kind, rec.facts)
	if claims := len(a.open) + len(a.kind.variantAt(number).specs()); len(allocations) != claims {
		return fmt.Errorf("there are %d allocations for %d claims that are not allocated", len(allocations), claims)
	}
	g := given{at: m.world.withRealNames(n, rec.facts), surroundings: m.data.surroundings, own: rec.state.Uses, taken: new(onenode.Taken)}
	for i := range allocations {
		if err := g.add(int32(i), &allocations[i], m.world.gates.ConsumableCapacity); err != nil {
			return fmt.Errorf("allocation %d: %w", i, err)
		}
	}
	s := b.segment(n, rec)
	s.each, s.given, s.number = 1, allocations, number
	m.take(a, n, reply{Answer: onenode.Decided(rec.state, g.taken, g.bound)}, number, b.shape.pod(0))
	b.placed, b.left = append(b.placed, s), 0
	return nil
}

// given adds up what allocations hold on a node.
type given struct {
	at           *nodeFacts // with the names of the node
	surroundings *onenode.Surroundings
	own          onenode.Uses // includes the allocations added so far
	taken        *onenode.Taken
	bound        []onenode.BoundTo
}

// add adds the allocation of a claim. The error names a device.
func (g *given) add(claim int32, allocation *resourceapi.AllocationResult, capacities bool) error {
	bound := onenode.BoundTo{Selector: allocation}
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		h := onenode.Holding{Request: result.Request, Claim: claim}
		if result.ShareID != nil && capacities {
			h.Share, h.Consumed = true, result.ConsumedCapacity
		}
		position, own := g.at.Position(id)
		held, shared := g.surroundings.Shared.Holding(id, h)
		if own || held.Binds {
			bound = onenode.BoundTo{Node: true}
		}
		free := true
		switch {
		case !own && !shared:
			return fmt.Errorf("result %d: the node has no device %s", i, id)
		case ptr.Deref(result.AdminAccess, false):
		case own:
			h.Device = position
			free, g.own = g.own.Allows(&h, g.at.Device(position)), g.own.Change([]onenode.Holding{h}, true)
			g.taken.Own = append(g.taken.Own, h)
		default:
			device := g.surroundings.Shared.Pools[held.Pool].Devices[held.Device]
			free, g.surroundings = g.surroundings.Uses[held.Pool].Allows(&held.Holding, device), g.surroundings.Change([]onenode.SharedHolding{held}, true)
			g.taken.Shared = append(g.taken.Shared, held)
		}
		if !free {
			return fmt.Errorf("result %d: device %s is in use", i, id)
		}
	}
	g.bound = append(g.bound, bound)
	return nil
}

// VictimSet is a set of pods of a node whose removal lets another pod fit there.
type VictimSet struct {
	Node Node
	// Pods is empty if the pod fits without removing any.
	Pods []*corev1.Pod
	Cost float64
	// Least is set if no other set on the node costs less. Otherwise the search was given up, or an answer on
	// the way was undecided.
	Least bool
}

// maxVictimSets is the largest number of sets that are tried on one node in the order of their cost.
const maxVictimSets = 4096

// Victims returns the cheapest sets of pods whose removal lets a pod of a shape fit, up to n sets on different
// real nodes. The order is by cost, then by node. A pod whose cost is infinite, negative or NaN is not removed.
// Devices of a claim that other pods use stay allocated. The number of sets tried is bounded for each node.
// Sim.Evict applies a set.
//
// A node is left out if no set is known to suffice. It counts as undecided if there may be one all the same: an
// answer is undecided, or many pods use the claims that the shape names. The error is the context's.
func (s *State) Victims(ctx context.Context, shape *Shape, on Nodes, cost func(*corev1.Pod) float64, n int) (sets []VictimSet, undecided int, err error) {
	s = s.withReadSet()
	c, err := s.world.NewCall(ctx)
	if err != nil {
		return nil, 0, err
	}
	if shape, err = shape.in(s.world); err != nil {
		return nil, 0, err
	}
	for _, part := range on.list() {
		for i, rec := range s.data.realIn(part) {
			v := &victims{state: s, call: &c, shape: shape, node: Node{index: i, name: rec.facts.Node.Name}, full: rec}
			v.add(cost)
			set, err := v.cheapest()
			switch {
			case err != nil:
				return nil, 0, err
			case set != nil:
				sets = append(sets, *set)
			case v.doubts:
				undecided++
			}
		}
	}
	slices.SortStableFunc(sets, func(a, b VictimSet) int { return cmp.Compare(a.Cost, b.Cost) })
	return sets[:min(len(sets), max(0, n))], undecided, nil
}

// victims searches for the cheapest set on one node.
type victims struct {
	state  *State
	call   *onenode.Call
	shape  *Shape
	node   Node
	full   *nodeRecord // with all pods
	pods   []victim    // cheapest first
	doubts bool        // whether there may be a cheaper set than the one that is found, or one if none is
}

type victim struct {
	*podEntry
	cost    float64
	demands []amounts.Demand
	// If alone is set, the pod leaves nothing but holdings of this node, and changes no claim that the shape names.
	alone    bool
	holdings []onenode.Holding
}

func (v *victims) add(cost func(*corev1.Pod) float64) {
	for entry := v.full.pods; entry != nil; entry = entry.before {
		c := cost(entry.pod)
		if !(c >= 0) || math.IsInf(c, 1) {
			continue
		}
		one := victim{podEntry: entry, cost: c, demands: v.state.world.demandsOf(entry.pod, v.full.facts), holdings: slices.Clip(entry.taken.Own)}
		one.alone = !v.shape.kind.shares && len(entry.taken.Shared) == 0 && v.state.holdsClaimsAlone(entry, v.node.index)
		for _, id := range entry.claims {
			for _, held := range v.state.data.claimRecord(int(id)).held {
				one.holdings = append(one.holdings, held.holdings...)
			}
		}
		v.pods = append(v.pods, one)
	}
	slices.Reverse(v.pods) // oldest first
	slices.SortStableFunc(v.pods, func(a, b victim) int { return cmp.Compare(a.cost, b.cost) })
}

// cheapest returns the cheapest set that suffices, nil if none does.
func (v *victims) cheapest() (*VictimSet, error) {
	if ok, err := v.suffices(nil); ok || err != nil {
		return &VictimSet{Node: v.node, Least: true}, err
	}
	search := subsets.Search{Suffices: v.suffices, Most: maxVictimSets}
	for i := range v.pods {
		search.Costs = append(search.Costs, v.pods[i].cost)
	}
	found, err := search.Cheapest(v.split())
	if found == nil || err != nil {
		return nil, err
	}
	set := &VictimSet{Node: v.node, Cost: found.Cost, Least: found.Least && !v.doubts}
	for _, i := range found.Numbers {
		set.Pods = append(set.Pods, v.pods[i].pod)
	}
	return set, nil
}

// maxParts is the largest number of parts of the sets that are tried on one node.
const maxParts = 64

// split splits the sets of pods by the claims that the wanted pod names. If all users of a claim leave, it is deallocated, and the
// wanted pod may not get devices for it again. Otherwise one of the users stays. Within a part, more pods that leave never hurt.
func (v *victims) split() []subsets.Part {
	all := make([]int, len(v.pods))
	for i := range all {
		all[i] = i
	}
	list := []subsets.Part{{Free: all}}
	for _, named := range v.shape.kind.entries {
		users := v.lastUsers(named.claim)
		if len(users) == 0 {
			continue
		}
		if 2*len(list) > maxParts {
			v.doubts = true
			return list
		}
		stay := users[max(0, len(users)-(maxParts/len(list)-1)):] // the most expensive ones
		v.doubts = v.doubts || len(stay) < len(users)
		var next []subsets.Part
		for _, part := range list {
			next = append(next, part.With(users...)...)
			for _, user := range stay {
				next = append(next, part.Without(user)...)
			}
		}
		list = next
	}
	return list
}

// lastUsers returns the pods that use a claim, if it is deallocated when all of them leave.
func (v *victims) lastUsers(claim int32) (users []int) {
	if claim < 0 || !v.state.data.claimRecord(int(claim)).allocated {
		return nil
	}
	m := v.state.Sim()
	for i := range v.pods {
		if slices.Contains(v.pods[i].claims, claim) {
			m.free(v.node, v.pods[i].podEntry, v.pods[i].demands)
			users = append(users, i)
		}
	}
	if m.data.claimRecord(int(claim)).allocated {
		return nil
	}
	return users
}

// suffices reports whether the pod fits once some pods are removed.
func (v *victims) suffices(members []int) (bool, error) {
	if v.call.Context.Err() != nil {
		return false, context.Cause(v.call.Context)
	}
	if !slices.ContainsFunc(members, func(i int) bool { return !v.pods[i].alone }) {
		rec := *v.full
		for _, i := range members {
			rec.leave(v.pods[i].holdings, v.pods[i].demands)
		}
		return v.fits(&v.state.data, &rec)
	}
	m := v.state.Sim()
	for _, i := range members {
		m.free(v.node, v.pods[i].podEntry, v.pods[i].demands)
	}
	rec, _ := m.data.record(v.node)
	return v.fits(&m.data, &rec)
}

// fits reports whether the pod fits on the node as it is in a record, where all else is as in a version.
func (v *victims) fits(d *version, rec *nodeRecord) (bool, error) {
	a := d.needsOf(v.state.world, v.shape.kind)
	if a.refused != nil {
		return false, nil //nolint:nilerr // such a pod fits nowhere
	}
	answer, _, err := a.on(v.call, d, v.node, rec)
	if err != nil {
		return false, err
	}
	v.doubts = v.doubts || answer.Fit == onenode.Undecided || answer.Fit == onenode.Failed
	return answer.Fit == onenode.Fits, nil
}
