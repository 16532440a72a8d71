// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
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
	m.free(n, entry)
	id := entry.identity()
	rec := m.edit(n)
	rec.pods = rec.pods.without(func(other *podEntry) bool { return other == id })
	return nil
}

// free releases what a pod holds. The pod stays in its node's list.
func (m *Sim) free(n Node, entry *podEntry) {
	rec := m.edit(n)
	rec.state = rec.state.Change(entry.taken.Own, false)
	if rec.facts.allocatable != nil {
		fromDevices, _ := m.world.fromDevices(podclaims.ExtendedResources(entry.pod), rec.facts.Node)
		rec.used = amounts.WithoutZeros(amounts.Add(rec.used, m.world.resources.Needs(entry.pod, fromDevices), -1))
	}
	m.release(entry)
	m.freed()
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

// variantAnyway returns the variant of a kind for a node, whether or not its pods may run there.
func (w *world) variantAnyway(k *podKind, facts *nodeFacts) int16 {
	if number := w.admittedVariant(k, facts); number >= 0 || len(k.asks) == 0 {
		return max(0, number)
	}
	names, _ := w.fromDevices(k.asks, facts.Node)
	return w.variant(k, names)
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
