// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// mostTogether is the largest number of pods of a gang that are solved as one problem.
const mostTogether = 1024

// together solves a gang as one problem for each domain, after placing its pods one after the other failed in
// all domains.
type together struct {
	*Sim
	total int
	// left is the budget for the remaining domains, in search steps.
	left int64
	// doubt is set if the answer for a domain is unknown. noProof is set if the problem of a domain has no
	// solution, but leaves out some ways to place the gang.
	doubt, noProof bool
	err            error
}

// place places all pods in the first domain in which they fit together, and returns that domain. It is nil if
// there is none.
func (t *together) place(ctx context.Context, domains []domain) (Result, *domain, error) {
	for i := range domains {
		if domains[i].most {
			continue // it is known how many fit
		}
		q := t.question(domains[i].members)
		if q == nil {
			continue
		}
		r, err := gang.Ask(ctx, q.Question)
		if err != nil {
			if ctx.Err() != nil {
				return Result{}, nil, context.Cause(ctx)
			}
			t.note(err)
			continue
		}
		if t.left = max(1, t.left-r.Steps); t.err == nil {
			t.err = r.Err
		}
		switch {
		case r.Verdict == allocator.NotSatisfiable:
			t.noProof = t.noProof || !r.Exact
			if len(q.Pods) == t.total {
				domains[i].placed = max(domains[i].placed, r.Placed())
			}
		case r.Verdict == allocator.Satisfiable && len(q.Pods) == t.total:
			placed, err := t.allOrNothing(func() (Result, error) { return q.put(ctx, r.Places) })
			if err == nil || ctx.Err() != nil {
				return placed, &domains[i], err
			}
			t.note(err)
		default:
			t.doubt = true
		}
	}
	return Result{}, nil, nil
}

func (t *together) note(err error) {
	t.doubt = true
	if t.err == nil {
		t.err = err
	}
}

// gangQuestion is the problem of a gang in one domain, with its nodes and members.
type gangQuestion struct {
	gang.Question
	*together
	nodes []gangNode
	// of has, for each pod, its member and the pod's number among those of the member.
	of []gangPod
}

type gangPod struct {
	*gangMember
	number int
}

// gangNode is a node before the gang is placed.
type gangNode struct {
	Node
	facts *nodeFacts
	used  []int64
}

// gangMember is a demand in a domain, with what its pods ask for on each node.
type gangMember struct {
	member
	needs *podNeeds
	// numbers are the variants that occur. on has, by node, the index in numbers; it is negative where the pods
	// may not run.
	numbers []int16
	on      []int
}

// question returns the problem for a domain. It is nil if its pods can only be placed one by one: a node is
// undecided, or claims are to match others of their pod. It is also nil if the gang certainly does not fit.
func (t *together) question(members []member) *gangQuestion {
	q := &gangQuestion{together: t}
	at := make(map[Node]int)
	var devices []onenode.NodeUse
	all := make([]gangMember, len(members))
	for i, m := range members {
		all[i] = gangMember{member: m, needs: t.data.needsOf(t.world, m.Shape.kind)}
		if all[i].needs.refused != nil {
			return nil // no pod is placed, and the result has the reason
		}
		if slices.ContainsFunc(m.Shape.kind.entries, func(e claimEntry) bool { return e.spec.Across() }) {
			t.noProof = true
			return nil
		}
		decided := t.data.each(m.on, t.total, func(n Node, rec *nodeRecord) {
			if _, known := at[n]; known {
				return
			}
			at[n] = len(q.nodes)
			facts := t.world.withRealNames(n, rec.facts)
			q.nodes = append(q.nodes, gangNode{n, facts, rec.used})
			q.Nodes = append(q.Nodes, facts.Node)
			devices = append(devices, onenode.NodeUse{Inventory: facts.Inventory, Uses: rec.state.Uses})
		})
		if !decided {
			t.doubt = true
			return nil
		}
	}
	least := int64(0)
	for i := range all {
		m := &all[i]
		m.on = slices.Repeat([]int{-1}, len(q.nodes))
		t.data.each(m.member.on, t.total, func(n Node, rec *nodeRecord) { m.set(at[n], m.needs.variant(n, rec.facts)) })
		least += m.leastDevices()
	}
	if least > int64(onenode.MostDevices(devices, t.data.surroundings)) {
		return nil // too few devices
	}
	q.State = t.world.StateOf(devices, t.data.surroundings)
	extensions := make(map[string]extension.Claim)
	for i := range all {
		for number := range all[i].Count {
			if len(q.Pods) == mostTogether {
				break
			}
			q.add(&all[i], number, i, extensions)
		}
	}
	q.Room, q.Budget = q.room, t.left
	q.Compile = func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
		more := make([]extension.Claim, len(claims))
		for i, claim := range claims {
			more[i] = extensions[claim.Name]
		}
		return t.world.Compile(claims, more)
	}
	q.Together = true // they do not fit one by one
	return q
}

// each visits the nodes of a set, and at most fresh new nodes of each template. It is false if it finds an
// undecided node.
func (d *version) each(on Nodes, fresh int, visit func(Node, *nodeRecord)) bool {
	for _, part := range on.list() {
		if part.template == nil {
			for i, rec := range d.realIn(part) {
				if rec.options != nil {
					return false
				}
				visit(Node{index: i, name: rec.facts.Node.Name}, rec)
			}
			continue
		}
		if part.template.choice != nil {
			return false
		}
		g, index := d.group(part.template), 0
		for i := range g.runs {
			for range g.runs[i].count {
				visit(Node{template: part.template, index: index}, &g.runs[i].nodeRecord)
				index++
			}
		}
		empty := d.fresh(part.template)
		for range min(fresh, mostTogether, part.freshNodes(g)) {
			visit(Node{template: part.template, index: index}, &empty)
			index++
		}
	}
	return true
}

// set records the variant of the kind for a node.
func (m *gangMember) set(node int, number int16) {
	if number < 0 {
		return
	}
	if m.on[node] = slices.Index(m.numbers, number); m.on[node] < 0 {
		m.on[node] = len(m.numbers)
		m.numbers = append(m.numbers, number)
	}
}

// leastDevices is a lower bound on the devices that the pods need, without claims that they share.
func (m *gangMember) leastDevices() int64 {
	least := int64(math.MaxInt64)
	for _, variant := range m.numbers {
		devices := int64(0)
		for i, s := range append(specsOf(m.needs.open), m.Shape.kind.variantAt(variant).specs()...) {
			if m.needs.claimOf(int32(i)) >= 0 {
				continue
			}
			for k := range s.Devices.Requests {
				devices += leastOf(&s.Devices.Requests[k])
			}
		}
		least = min(least, devices)
	}
	if len(m.numbers) == 0 {
		return 0
	}
	return int64(m.Count) * least
}

// leastOf is the smallest number of devices of a request.
func leastOf(r *resourceapi.DeviceRequest) int64 {
	if e := r.Exactly; e != nil {
		if ptr.Deref(e.AdminAccess, false) {
			return 0
		}
		return leastCount(e.AllocationMode, e.Count)
	}
	least := int64(math.MaxInt64)
	for i := range r.FirstAvailable {
		least = min(least, leastCount(r.FirstAvailable[i].AllocationMode, r.FirstAvailable[i].Count))
	}
	if len(r.FirstAvailable) == 0 {
		return 0
	}
	return least
}

// leastCount is the smallest number of devices for an allocation mode and a count, where 0 means 1. Mode All
// needs at least one.
func leastCount(mode resourceapi.DeviceAllocationMode, count int64) int64 {
	if mode == resourceapi.DeviceAllocationModeAll {
		return 1
	}
	return max(1, min(count, resourceapi.AllocationResultsMaxSize))
}

// add adds a pod of a member. Claims that pods share have the same name for all pods. Names are phrases for errors.
func (q *gangQuestion) add(m *gangMember, number, position int, extensions map[string]extension.Claim) {
	pod := gang.Pod{Kind: fmt.Sprint("demand ", position), Variant: func(node int) int { return m.on[node] }}
	for _, variant := range m.numbers {
		specs := append(specsOf(m.needs.open), m.Shape.kind.variantAt(variant).specs()...)
		list := make([]*resourceapi.ResourceClaim, len(specs))
		for i, s := range specs {
			claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.Devices}}
			claim.Name = fmt.Sprintf("no. %d of pod %d", i+1, len(q.Pods)+1)
			if shared := m.needs.claimOf(int32(i)); shared >= 0 {
				claim.Name = fmt.Sprintf("no. %d of those that pods share", shared+1)
			}
			claim.UID = types.UID(claim.Name)
			extensions[claim.Name] = s.More
			list[i] = claim
		}
		pod.Variants = append(pod.Variants, list)
	}
	if len(pod.Variants) == 0 {
		pod.Variants = [][]*resourceapi.ResourceClaim{nil}
	}
	q.Pods, q.of = append(q.Pods, pod), append(q.of, gangPod{m, number})
}

// room reports whether a node has room for some pods together, apart from devices.
func (q *gangQuestion) room(node int, pods []int) bool {
	n := &q.nodes[node]
	used := slices.Clone(n.used)
	on := make(map[*gangMember]int)
	for _, pod := range pods {
		m := q.of[pod].gangMember
		if on[m]++; m.PerNode > 0 && on[m] > m.PerNode {
			return false
		}
		demands := m.Shape.kind.variantAt(m.numbers[m.on[node]]).demands
		if amounts.Room(n.facts.allocatable, used, demands, 1) == 0 {
			return false
		}
		used = amounts.AddInPlace(used, demands, 1)
	}
	return true
}

// put puts the pods on the nodes of the solution, with the devices that it allocates.
func (q *gangQuestion) put(ctx context.Context, places []gang.Place) (Result, error) {
	result := Result{world: q.world}
	for i, place := range places {
		n, of := q.nodes[place.Node].Node, q.of[i]
		if n.template != nil {
			g := q.ownGroup(n.template)
			g.total = max(g.total, n.index+1)
		}
		allocations := make([]resourceapi.AllocationResult, len(place.Claims))
		for k, claim := range place.Claims {
			allocations[k] = *claim.Status.Allocation
		}
		pod := of.Shape.pod(of.number)
		placed, err := q.putOn(ctx, &Shape{Pods: []*corev1.Pod{pod}, kind: of.Shape.kind, claims: q.world.resolver}, n, allocations)
		if err != nil {
			return Result{}, err
		}
		if result.merge(placed); !placed.All() {
			return Result{}, fmt.Errorf("pod %s/%s has no room on node %s, where it was to go", pod.Namespace, pod.Name, n.Name())
		}
	}
	return result, nil
}
