// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Result of a call that places pods.
type Result struct {
	// Placed is how many pods have a node. Undecided and Unfit are the others: Undecided if there
	// is a node on which the search was given up or failed, so that the pods may fit.
	Placed, Unfit, Undecided int
	// NoProof says that the pods of a gang which are Unfit may fit in a way that was not looked for: see Sim.Gang.
	NoProof bool
	// Domain is where Sim.Gang placed the gang: a value for each topology that was kept. It is nil without topologies.
	Domain []InCommon
	// Closest is the domain that lacks least for a gang which was not placed. It is nil if there is no domain.
	Closest *Closest
	// Err is the first error about a node, nil if there was none. Nodes with errors take no pods.
	Err error
	// NotLookedAt is what kube-scheduler looks at of the pods and the simulation did not: whether they
	// are placed may depend on it. It is nil if that is nothing.
	NotLookedAt []NotLookedAt

	segments []segment
	unplaced []unplaced
	world    *world
}

// All reports whether every pod is placed.
func (r *Result) All() bool { return r.Unfit+r.Undecided == 0 }

// merge adds another result.
func (r *Result) merge(other Result) {
	r.Placed, r.Unfit, r.Undecided = r.Placed+other.Placed, r.Unfit+other.Unfit, r.Undecided+other.Undecided
	if r.Err == nil {
		r.Err = other.Err
	}
	for _, n := range other.NotLookedAt {
		if !slices.ContainsFunc(r.NotLookedAt, func(known NotLookedAt) bool { return slices.Equal(known.Aspects, n.Aspects) }) {
			r.NotLookedAt = append(slices.Clip(r.NotLookedAt), n)
		}
	}
	r.segments, r.world = append(r.segments, other.segments...), other.world
	r.unplaced = append(r.unplaced, other.unplaced...)
}

// NotLookedAt is what a simulation does not look at of some pods.
type NotLookedAt struct {
	// Pod is one of those that have it.
	Pod *corev1.Pod
	// Aspects are phrases, as of nodefit.NotLookedAt.
	Aspects []string
}

// notLookedAt lists what is not looked at of pods, once for each list of aspects.
func notLookedAt(list []NotLookedAt, shape *Shape) []NotLookedAt {
	aspects := shape.kind.notLookedAt
	if len(aspects) == 0 || slices.ContainsFunc(list, func(n NotLookedAt) bool { return slices.Equal(n.Aspects, aspects) }) {
		return list
	}
	return append(slices.Clip(list), NotLookedAt{Pod: shape.pod(0), Aspects: aspects})
}

// InCommon is what the nodes or devices of a domain have in common: the value of a label, or that of an attribute as a CEL literal.
type InCommon struct {
	Topology Topology
	Value    string
}

// String is name and value.
func (c InCommon) String() string { return c.Topology.name() + "=" + c.Value }

// Topology is what a gang must have in common: the value of a label of all its nodes, or of an
// attribute of all its devices. One of the two is set. Nodes without the label, and devices without
// the attribute, have no value and are of no use.
type Topology struct {
	NodeLabel string
	// DeviceAttribute is compared as by matchAttribute, but over all pods: requests get devices with
	// one value, or with a list that has it. A request for all devices gets all with the value. The
	// order is that of nodes, then of devices. Versions that differ in build metadata only are equal.
	// Pods without such a request need no node of the domain, but for its labels.
	DeviceAttribute resourceapi.FullyQualifiedName
	// Requests are the names of the requests that DeviceAttribute is about, as in a
	// DeviceConstraint: "request" or "request/subrequest". Empty are all.
	Requests []string
	// Preferred topologies are given up, the last one first, if there is no place otherwise. So with the levels of a hierarchy
	// in order, such as zone and rack, all preferred, a gang is placed in the innermost that has room.
	Preferred bool
}

func (t *Topology) name() string {
	return cmp.Or(t.NodeLabel, string(t.DeviceAttribute))
}

// Closest is the domain that comes closest to having room for a gang.
type Closest struct {
	// Domain has a value for each topology that is required.
	Domain []InCommon
	// Placed is for how many of the Pods a place was found there: one after the other until one has none, or more of them
	// together.
	Placed, Pods int
}

// String is one sentence, without a full stop.
func (c *Closest) String() string {
	count := fmt.Sprintf("%d of %s", c.Placed, explain.Count(c.Pods, "pod"))
	if len(c.Domain) == 0 {
		return count + " have a place"
	}
	names := make([]string, len(c.Domain))
	for i := range c.Domain {
		names[i] = c.Domain[i].String()
	}
	return strings.Join(names, ", ") + " comes closest: " + count
}

// unplaced is what a Refusal is made of when somebody asks.
type unplaced struct {
	state *State
	shape *Shape
	on    Nodes
	pods  int
	// perNode is how many pods a node may have, if it has room for more; 0 for any number.
	perNode int
	// because is what keeps pods away from all nodes of the set; empty if the nodes have to be asked.
	because string
}

// segment are pods that were placed on equal nodes, one node after the other.
type segment struct {
	node  Node // the first
	nodes int
	each  int // pods per node
	first int // number of the first pod
	// before are the devices of the node before the first pod, around what was around it.
	before nodeDevices
	around *onenode.Surroundings
	asked  *asked
	shape  *Shape
	// given are allocations that were decided elsewhere, number is the variant of them.
	given  []resourceapi.AllocationResult
	number int16
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
	if s.given != nil {
		return p.given(), nil
	}
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
	claims := p.objects(number)
	for i, result := range assignment.Results() {
		claims[i].Status.Allocation = result.DeepCopy()
	}
	return claims, nil
}

// As is the placement once its undecided node is of a template. Claims has an error if that was not
// among the options of the node.
func (p *Placement) As(t *Template) Placement {
	decided := *p
	decided.as = t
	return decided
}

// decided are the devices of the node of a placement before the pods of its segment.
func (p *Placement) decided() (nodeDevices, error) {
	before := p.segment.before
	o := before.options
	if o == nil {
		return before, nil
	}
	t := p.as
	if t == nil && len(o.members()) > 1 {
		return nodeDevices{}, fmt.Errorf("node %s: %w", p.Node.Name(), ErrUndecidedNode)
	}
	if t == nil {
		t = o.cheapest()
	}
	one, found := (&nodeRecord{nodeDevices: before}).as(t)
	if !found {
		return nodeDevices{}, fmt.Errorf("node %s cannot be of the template %s", p.Node.Name(), t.name())
	}
	return one.nodeDevices, nil
}

// given are the claims with the allocations that Put was given.
func (p *Placement) given() []*resourceapi.ResourceClaim {
	claims := p.objects(p.segment.number)
	for i, result := range p.segment.given {
		claims[i].Status.Allocation = result.DeepCopy()
	}
	return claims
}

// objects are the claims that were allocated for the pod, without what a gang adds to them, by variant.
func (p *Placement) objects(number int16) []*resourceapi.ResourceClaim {
	a := p.segment.asked
	kind := cmp.Or(a.kind.whole, a.kind)
	return p.world.objects(p.Pod, a.open, append(specsOf(a.open), kind.variantAt(number).specs()...))
}

// objects are the claims of a pod that are to be allocated: those that exist as they are, those that are made for
// the pod as they will be. Specs without an entry are for extended resources, of which the claim has no name.
func (w *world) objects(pod *corev1.Pod, open []claimEntry, specs []*onenode.Spec) []*resourceapi.ResourceClaim {
	var made []*resourceapi.ResourceClaim
	for _, podClaim := range pod.Spec.ResourceClaims {
		if entry, found, err := w.entry(pod, podClaim); err == nil && found && entry.claim < 0 {
			claim, _ := w.resolver.Resolve(pod, podClaim) // as for the entry
			made = append(made, claim)
		}
	}
	list := make([]*resourceapi.ResourceClaim, len(specs))
	for i, s := range specs {
		switch {
		case i < len(open) && open[i].claim >= 0:
			list[i] = w.claimNumbered(open[i].claim).object.DeepCopy()
		case i < len(open) && len(made) > 0:
			list[i], made = made[0].DeepCopy(), made[1:]
		default:
			list[i] = &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.Devices}}
			list[i].Namespace = pod.Namespace
		}
	}
	return list
}
