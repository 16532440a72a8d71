package simulate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Result of a call that places pods.
type Result struct {
	// Placed is how many pods have a node. Undecided and Unfit are the others: Undecided if there
	// is a node on which the search was given up or failed, so that the pods may fit.
	Placed, Unfit, Undecided int
	// Err is the first error about a node, nil if there was none. Nodes with errors take no pods.
	Err error

	segments []segment
	unplaced []unplaced
	world    *world
}

// All reports whether every pod is placed.
func (r *Result) All() bool { return r.Unfit+r.Undecided == 0 }

func (b *batch) result(n int) Result {
	r := Result{Placed: b.count(), Err: b.call.Err, segments: b.placed, world: b.sim.world}
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
	r.segments, r.world = append(r.segments, other.segments...), other.world
	r.unplaced = append(r.unplaced, other.unplaced...)
}

// Placement is a pod on a node.
type Placement struct {
	// Pod is one of those that were given. For pods beyond those of a Shape it is the last of them.
	Pod  *corev1.Pod
	Node Node

	world   *world
	segment segment
	before  int // pods of the segment on the node before this one
	as      *Template
}

// Placements lists the pods that were placed, in order.
func (r *Result) Placements() iter.Seq[Placement] {
	return func(yield func(Placement) bool) {
		for _, s := range r.segments {
			for k := range s.nodes * s.each {
				node := s.node
				node.index += k / s.each
				if !yield(Placement{Pod: s.shape.pod(s.first + k), Node: node, world: r.world, segment: s, before: k % s.each}) {
					return
				}
			}
		}
	}
}

// Claims returns the claims that were allocated for the pod as the API server would hold them, in the
// order of the pod's spec; the one for extended resources, which has no name yet, comes last. Claims
// that were allocated before are not among them. It allocates again, with the names of the node, so
// it takes as long as that. The error is ErrUndecidedNode if more than one template remained for the
// node before the call placed pods on it, and As does not say which is meant; else it is the context's.
func (p *Placement) Claims(ctx context.Context) ([]*resourceapi.ResourceClaim, error) {
	s := &p.segment
	before, err := p.decided()
	if err != nil {
		return nil, err
	}
	inv := p.world.named(p.Node, before.facts)
	c, err := p.world.NewCall(ctx)
	if err != nil {
		return nil, err
	}
	number := p.world.on(s.asked.kind, inv)
	problem, err := s.asked.problemOn(number, p.Node, inv)
	if err != nil {
		return nil, err
	}
	outcome, err := p.world.Repeat(c.Context, inv.Inventory, before.state.Uses, s.around, problem, p.before+1)
	if err != nil {
		return nil, err
	}
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok && p.as != nil {
		return nil, fmt.Errorf("node %s cannot be of the template %s", p.Node.Name(), p.as.name())
	}
	if !ok {
		panic("node " + p.Node.Name() + " had room for the pod, and now it has not") // allocation repeats exactly
	}
	return p.claims(assignment.Results(), number), nil
}

// named returns a node under the names that it has or would have.
func (w *world) named(n Node, inv *nodeFacts) *nodeFacts {
	if n.template != nil {
		node, published := inv.template.object(n.index), inv.template.slices(inv.template.published, n.index)
		if inv.template != n.template { // the node was undecided
			rename(node, published, n)
		}
		inv = inv.with(onenode.NewInventory(node, published, onenode.ReadPools(w.gates, published)))
	}
	return inv
}

// claims puts results into copies of the claims.
func (p *Placement) claims(results []resourceapi.AllocationResult, number int16) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	open := slices.Clone(p.segment.asked.open)
	for i := range results {
		claim := &resourceapi.ResourceClaim{}
		claim.Namespace = p.Pod.Namespace
		if i < len(open) {
			claim = p.object(open[i], i)
		} else {
			kind := cmp.Or(p.segment.asked.kind.whole, p.segment.asked.kind)
			claim.Spec.Devices = kind.variantAt(number).spec.Devices
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
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: e.spec.Devices}}
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
