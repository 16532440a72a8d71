package simulate

import (
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// Result of a call that places pods.
type Result struct {
	// Placed is how many pods have a node. Undecided and Unfit are the others: Undecided if there
	// is a node on which the search was given up or failed, so that the pods may fit.
	Placed, Unfit, Undecided int
	// Err is the first error about a node, nil if there was none. Nodes with errors take no pods.
	Err error

	segments []segment
	shapes   []*Shape // by segment
	unplaced []unplaced
	world    *world
}

// All reports whether every pod is placed.
func (r *Result) All() bool { return r.Unfit+r.Undecided == 0 }

func (b *batch) result(n int) Result {
	r := Result{Placed: b.count(), Err: b.call.err, segments: b.placed, world: b.sim.world}
	r.shapes = slices.Repeat([]*Shape{b.shape}, len(b.placed))
	switch rest := max(0, n) - r.Placed; {
	case b.asked != nil && b.asked.refused != nil && rest > 0:
		r.Unfit, r.Err = rest, b.asked.refused
	case b.doubtful:
		r.Undecided = rest
	default:
		r.Unfit = rest
	}
	if rest := r.Unfit + r.Undecided; rest > 0 {
		r.unplaced = []unplaced{{state: b.sim.State(), shape: b.shape, on: b.on, pods: rest}}
	}
	return r
}

// merge adds another result.
func (r *Result) merge(other Result) {
	r.Placed, r.Unfit, r.Undecided = r.Placed+other.Placed, r.Unfit+other.Unfit, r.Undecided+other.Undecided
	if r.Err == nil {
		r.Err = other.Err
	}
	r.segments, r.shapes, r.world = append(r.segments, other.segments...), append(r.shapes, other.shapes...), other.world
	r.unplaced = append(r.unplaced, other.unplaced...)
}

// Placement is a pod on a node.
type Placement struct {
	// Pod is one of those that were given. Pods beyond those of a Shape are given as one like them.
	Pod  *corev1.Pod
	Node Node

	world   *world
	segment segment
	before  int // pods of the segment on the node before this one
}

// Placements lists the pods that were placed, in order.
func (r *Result) Placements() iter.Seq[Placement] {
	return func(yield func(Placement) bool) {
		for i, s := range r.segments {
			for k := range s.nodes * s.each {
				node := s.node
				node.index += k / s.each
				if !yield(Placement{Pod: r.shapes[i].pod(s.first + k), Node: node, world: r.world, segment: s, before: k % s.each}) {
					return
				}
			}
		}
	}
}

// Claims returns the claims that were allocated for the pod as the API server would hold them, in the
// order of the pod's spec; the one for extended resources, which has no name yet, comes last. Claims
// that were allocated before are not among them. It allocates again, with the names of the node, so
// it takes as long as that. The error is the context's.
func (p *Placement) Claims(ctx context.Context) ([]*resourceapi.ResourceClaim, error) {
	s := &p.segment
	r, inv := p.world.named(p.Node, s.before.inventory, s.data.shared)
	c, err := p.world.newCall(ctx)
	if err != nil {
		return nil, err
	}
	number := p.world.on(s.asked.kind, inv)
	q := s.asked.question(number)
	state := s.before.state.uses
	for pod := 0; ; pod++ {
		inUse := s.data.taken(inv, state)
		outcome, err := r.allocate(c.ctx, q.problem, inUse)
		if err != nil {
			return nil, err
		}
		assignment, ok := outcome.(*allocator.Assignment)
		if !ok {
			panic("node " + p.Node.Name() + " had room for the pod, and now it has not") // allocation repeats exactly
		}
		if pod == p.before {
			return p.claims(assignment.Results()), nil
		}
		a, err := newAnswer(assignment.Results(), inv, &crossing{shared: s.data.shared}, p.world.gates.ConsumableCapacity)
		if err != nil {
			return nil, err
		}
		state = state.change(a.own, true)
	}
}

// named returns a node with everything that reaches it, under the names that it has or would have.
func (w *world) named(n Node, inv *inventory, shared *sharedPools) (*room, *inventory) {
	if n.template != nil {
		node, published := n.template.Nodes(n.index)
		named := newInventory(node, published, readPools(w.gates, published))
		named.template, named.index, named.allocatable = n.template, inv.index, inv.allocatable
		inv = named
	}
	return newRoom(w.gates, inv.node, slices.Concat(inv.slices(), shared.published)), inv
}

// taken lists what is in use of a node and of shared pools.
func (d *version) taken(inv *inventory, own uses) []taken {
	inUse := inv.taken(own)
	for position := range d.sharedUses {
		inUse = append(inUse, d.shared.taken(position, d.sharedUses[position])...)
	}
	return inUse
}

// claims puts results into copies of the claims.
func (p *Placement) claims(results []resourceapi.AllocationResult) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	open := slices.Clone(p.segment.asked.open)
	for i := range results {
		claim := &resourceapi.ResourceClaim{}
		claim.Namespace = p.Pod.Namespace
		if i < len(open) {
			claim = p.object(open[i], i)
		} else {
			claim.Spec.Devices = p.segment.asked.question(p.world.on(p.segment.asked.kind, p.segment.before.inventory)).specs[i].devices
		}
		claim = claim.DeepCopy()
		claim.Status.Allocation = results[i].DeepCopy()
		list = append(list, claim)
	}
	return list
}

// object is the claim behind an open entry.
func (p *Placement) object(e claimEntry, position int) *resourceapi.ResourceClaim {
	if e.claim >= 0 {
		return p.world.claimNumbered(e.claim).object
	}
	made := 0
	for _, podClaim := range p.Pod.Spec.ResourceClaims {
		claim, err := p.world.resolver.Resolve(p.Pod, podClaim)
		if err != nil || claim == nil || p.shared(podClaim) {
			continue
		}
		if made == p.ownBefore(position) {
			return claim
		}
		made++
	}
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: e.spec.devices}}
}

// ownBefore counts the entries before a position that are made for the pod.
func (p *Placement) ownBefore(position int) int {
	n := 0
	for _, e := range p.segment.asked.open[:position] {
		if e.claim < 0 {
			n++
		}
	}
	return n
}

// shared reports whether an entry of the pod's spec is a claim that others may use.
func (p *Placement) shared(podClaim corev1.PodResourceClaim) bool {
	entry, found, err := p.world.entry(p.Pod, podClaim)
	return err != nil || !found || entry.claim >= 0
}
