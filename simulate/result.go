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

// Result is the result of a call that places pods.
type Result struct {
	// Placed counts the pods that were placed, Undecided and Unfit the others. Undecided pods may fit: on some
	// node, the search failed or ran out of budget.
	Placed, Unfit, Undecided int
	// NoProof is set if the Unfit pods of a gang may fit in a way that was not searched, see Sim.Gang.
	NoProof bool
	// Domain is the domain in which Sim.Gang placed the gang: a value for each topology that was kept. It is
	// nil without topologies.
	Domain []InCommon
	// Closest is the domain that comes closest to having room for a gang that was not placed. It is nil if
	// there is no domain.
	Closest *Closest
	// Err is the first error about a node, nil if there was none. Pods are not placed on nodes with errors.
	Err error
	// NotLookedAt lists what kube-scheduler checks of the pods but the simulation did not. Whether they are
	// placed may depend on it. It is nil if there is nothing.
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

// NotLookedAt is what a simulation does not check of some pods.
type NotLookedAt struct {
	// Pod is one of these pods.
	Pod *corev1.Pod
	// Aspects are phrases of nodefit.NotLookedAt.
	Aspects []string
}

// notLookedAt adds the aspects of a shape to a list, unless they are in it.
func notLookedAt(list []NotLookedAt, shape *Shape) []NotLookedAt {
	aspects := shape.kind.notLookedAt
	if len(aspects) == 0 || slices.ContainsFunc(list, func(n NotLookedAt) bool { return slices.Equal(n.Aspects, aspects) }) {
		return list
	}
	return append(slices.Clip(list), NotLookedAt{Pod: shape.pod(0), Aspects: aspects})
}

// InCommon is what the nodes or devices of a domain have in common: the value of a label, or that of an
// attribute as a CEL literal.
type InCommon struct {
	Topology Topology
	Value    string
}

// String returns name=value.
func (c InCommon) String() string { return c.Topology.name() + "=" + c.Value }

// Topology is a property that a gang must have in common: the value of a label of its nodes, or of an attribute
// of its devices. One of the two is set. Nodes without the label, and devices without the attribute, are not in
// any domain.
type Topology struct {
	NodeLabel string
	// DeviceAttribute is compared as by matchAttribute, but over all pods. Requests get devices with one value,
	// or with a list that contains it. A request for all devices gets all devices with the value. Domains are
	// ordered by node, then by device. Versions that differ in build metadata only are equal. Pods without such
	// a request may run on nodes without the attribute, as long as the labels match.
	DeviceAttribute resourceapi.FullyQualifiedName
	// Requests are the names of the requests to which DeviceAttribute applies, as in a DeviceConstraint:
	// "request" or "request/subrequest". If it is empty, it applies to all.
	Requests []string
	// Values are those that the gang may have in common, as in InCommon: that of its pods which run already, for
	// instance. Nil permits all, an empty list none.
	Values []string
	// Preferred topologies are dropped, the last one first, if the gang does not fit otherwise. List the levels
	// of a hierarchy in order, such as zone and rack, all preferred. The gang is then placed in the innermost
	// level that has room.
	Preferred bool
}

func (t *Topology) name() string {
	return cmp.Or(t.NodeLabel, string(t.DeviceAttribute))
}

// Permits reports whether the gang may have a value in common.
func (t *Topology) Permits(value string) bool {
	return t.Values == nil || slices.Contains(t.Values, value)
}

// Closest is the domain that comes closest to having room for a gang.
type Closest struct {
	// Domain has a value for each required topology.
	Domain []InCommon
	// Placed is the number of Pods that fit in the domain: one after the other until the first that does not,
	// or more if they are solved together.
	Placed, Pods int
}

// String returns one sentence, without a full stop.
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

// unplaced is what Result.Why needs to explain why pods of a shape were not placed.
type unplaced struct {
	state *State
	shape *Shape
	on    Nodes
	pods  int
	// perNode is the largest number of these pods on one node; 0 for any number.
	perNode int
	// because is why no node of the set takes the pods. If it is empty, each node is asked.
	because string
}

// segment is a sequence of equal nodes on each of which the same number of pods was placed.
type segment struct {
	node  Node // the first
	nodes int
	each  int // pods per node
	first int // number of the first pod
	// before are the devices of the node before the first pod, surroundings the pools of several nodes at
	// that time.
	before       nodeDevices
	surroundings *onenode.Surroundings
	needs        *podNeeds
	shape        *Shape
	// given are allocations that the caller of Put gave, nil otherwise. number is the variant for them.
	given  []resourceapi.AllocationResult
	number int16
}

// Placement is a pod on a node.
type Placement struct {
	// Pod is one of the pods that were given. If more were placed than a Shape has, it is the last one of the
	// Shape.
	Pod  *corev1.Pod
	Node Node

	world   *world
	segment segment
	before  int // number of the segment's pods on the node before this one
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

// Claims returns the claims that were allocated for the pod as the API server would store them, in the order of
// the pod's spec. A claim for extended resources comes last, without a name. Claims that were allocated before
// are left out. The allocation is repeated with the names of the node, so it takes as long as that. The error
// is ErrUndecidedNode if several templates remained for the node before the call that placed the pod, and As
// was not used. Any other error is the context's.
func (p *Placement) Claims(ctx context.Context) ([]*resourceapi.ResourceClaim, error) {
	s := &p.segment
	if s.given != nil {
		return p.given(), nil
	}
	before, err := p.decided()
	if err != nil {
		return nil, err
	}
	inv := p.world.withRealNames(p.Node, before.facts)
	c, err := p.world.NewCall(ctx)
	if err != nil {
		return nil, err
	}
	number := p.world.admittedVariant(s.needs.kind, inv)
	problem, err := s.needs.problemOn(number, p.Node, inv)
	if err != nil {
		return nil, err
	}
	outcome, err := p.world.Repeat(c.Context, inv.Inventory, before.state.Uses, s.surroundings, problem, p.before+1)
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

// As returns the placement for one template of an undecided node. Claims then returns an error if the node
// could not be of that template.
func (p *Placement) As(t *Template) Placement {
	decided := *p
	decided.as = t
	return decided
}

// decided returns the devices of the placement's node, before the pods of its segment.
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

// given returns the claims with the allocations that Put was given.
func (p *Placement) given() []*resourceapi.ResourceClaim {
	claims := p.objects(p.segment.number)
	for i, result := range p.segment.given {
		claims[i].Status.Allocation = result.DeepCopy()
	}
	return claims
}

// objects returns the claims that were allocated for the pod, for a variant, without the filters of a gang.
func (p *Placement) objects(number int16) []*resourceapi.ResourceClaim {
	a := p.segment.needs
	kind := cmp.Or(a.kind.whole, a.kind)
	return p.world.objects(p.Pod, a.open, append(specsOf(a.open), kind.variantAt(number).specs()...))
}

// objects returns the claims of a pod that are to be allocated: existing claims as they are, others as they
// will be created. A spec without an entry is for extended resources, whose claim has no name.
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
