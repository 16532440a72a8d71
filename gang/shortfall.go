// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// Shortfall explains why pods that the group needs have no place, and what would have to change.
type Shortfall struct {
	// Pod is the first pod without a place.
	Pod int
	// Rivals are pods with a place, grouped by what they compete for. Without any one of them, Pod would have a
	// place.
	Rivals []Rival
	// Changes each give the group enough places, the smallest first.
	Changes []Change
}

// Rival is what pods on a node compete for with the pod that has no place.
type Rival struct {
	Node int
	// Pods have a place on the node. Without any one of them, the other pod has one.
	Pods []int
	// Devices are those that both pods would have. If there are none, Counters are the counter sets on which
	// their different devices draw. If both are empty, they compete for something else: see Question.Room, or
	// devices that can only be had together.
	Devices  []pools.DeviceID
	Counters []pools.DeviceID // by name of the set
}

// Change is one change that would let a group start.
type Change struct {
	// Fewer is by how many pods Min would have to be lower.
	Fewer int
	// Without is a constraint across pods that would have to be removed.
	Without string
	// Nodes is how many more nodes would be needed: copies of the node Like, with its devices, all free.
	Nodes, Like int
}

const (
	// mostRivals bounds the pods that are tried as rivals.
	mostRivals = 64
	// mostNodes bounds the additional nodes that are tried, and the nodes that are copied.
	mostNodes = 4
)

// Explain explains why not enough pods have a place. It is nil for any other result. It asks some similar
// questions. If nodes is set, it also tries additional nodes, which takes time in proportion to all devices.
// Undecided changes are left out. The error is that of the context.
func Explain(ctx context.Context, q Question, r *Result, nodes bool) (*Shortfall, error) {
	if r.Verdict == allocator.Satisfiable || len(r.Places) != len(q.Pods) {
		return nil, nil
	}
	q.normalise()
	e := &explainer{Question: q, context: ctx, result: r, found: &Shortfall{Pod: slices.IndexFunc(r.Places, func(p Place) bool { return p.Node < 0 })}}
	if e.found.Pod < 0 {
		return nil, nil
	}
	steps := []func() error{e.rivals, e.fewer, e.without}
	if nodes {
		steps = append(steps, e.nodes)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			return e.found, nil // other errors end the explanation early
		}
	}
	return e.found, nil
}

type explainer struct {
	Question
	context context.Context
	result  *Result
	found   *Shortfall
}

// rivals tries for each pod with a place whether the one without would have a place instead.
func (e *explainer) rivals() error {
	state := e.State
	var err error
	taken := make(map[claimKey]bool)
	on := make([][]int, len(e.Nodes))
	for pod, place := range e.result.Places {
		if place.Node >= 0 {
			on[place.Node] = append(on[place.Node], pod)
		}
		for _, claim := range place.Claims {
			taken[keyOf(claim)] = true
			if state, err = state.Assume(claim); err != nil {
				return err
			}
		}
	}
	pod, tried := e.found.Pod, 0
	for holder, place := range e.result.Places {
		v := -1
		if place.Node >= 0 && tried < mostRivals {
			v = (&asker{Question: e.Question}).variant(pod, place.Node)
		}
		if v < 0 || !e.Room(place.Node, append(slices.DeleteFunc(slices.Clone(on[place.Node]), func(p int) bool { return p == holder }), pod)) {
			continue
		}
		tried++
		without := state
		for _, claim := range place.Claims {
			if without, err = without.Forget(claim); err != nil {
				return err
			}
		}
		open := slices.DeleteFunc(slices.Clone(e.Pods[pod].Variants[v]), func(c *resourceapi.ResourceClaim) bool { return taken[keyOf(c)] })
		given, fits, err := e.give(open, without, place.Node)
		if err != nil {
			return err
		}
		if fits {
			e.add(holder, given)
		}
	}
	return nil
}

// give allocates claims on a node, in the domain of the result.
func (e *explainer) give(claims []*resourceapi.ResourceClaim, state *pools.State, node int) ([]resourceapi.AllocationResult, bool, error) {
	if len(claims) == 0 {
		return nil, true, nil
	}
	required, preferred := commonOf(e.Group)
	for i, c := range append(required, preferred...) {
		if i >= len(e.result.Domain) || e.result.Domain[i].Attribute != c.attribute {
			continue // a preference that was not kept
		}
		var err error
		if claims, err = c.narrow(claims, e.result.Domain[i].Values); err != nil {
			return nil, false, err
		}
	}
	problem, err := e.Compile(claims)
	if err != nil {
		return nil, false, err
	}
	found, err := problem.Feasible(e.context, state, e.Nodes[node])
	if err != nil || found.Verdict() != allocator.Satisfiable {
		return nil, false, err
	}
	return found.Results(), true, nil
}

// add records that a pod has what the pod without a place would be given instead.
func (e *explainer) add(holder int, given []resourceapi.AllocationResult) {
	r := Rival{Node: e.result.Places[holder].Node, Pods: []int{holder}}
	devices, sets := e.uses(given)
	var held []resourceapi.AllocationResult
	for _, claim := range e.result.Places[holder].Claims {
		held = append(held, *claim.Status.Allocation)
	}
	ofHolder, setsOfHolder := e.uses(held)
	both := func(x, y []pools.DeviceID) []pools.DeviceID {
		return slices.DeleteFunc(x, func(id pools.DeviceID) bool { return !slices.Contains(y, id) })
	}
	if r.Devices = both(devices, ofHolder); len(r.Devices) == 0 {
		r.Counters = both(sets, setsOfHolder)
	}
	for i := range e.found.Rivals {
		if known := &e.found.Rivals[i]; known.Node == r.Node && slices.Equal(known.Devices, r.Devices) && slices.Equal(known.Counters, r.Counters) {
			known.Pods = append(known.Pods, holder)
			return
		}
	}
	e.found.Rivals = append(e.found.Rivals, r)
}

// uses lists the devices of allocations, and the counter sets on which they draw.
func (e *explainer) uses(list []resourceapi.AllocationResult) (devices, sets []pools.DeviceID) {
	for i := range list {
		for _, result := range list[i].Devices.Results {
			id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			pool, found := e.State.Snapshot().Pool(id.PoolID())
			if !found || ptr.Deref(result.AdminAccess, false) {
				continue
			}
			devices = append(devices, id)
			for device := range pool.Lookup(result.Device) {
				for _, draws := range device.Object().ConsumesCounters {
					if set := (pools.DeviceID{Driver: id.Driver, Pool: id.Pool, Device: draws.CounterSet}); !slices.Contains(sets, set) {
						sets = append(sets, set)
					}
				}
			}
		}
	}
	return devices, sets
}

// fewer adds the change to a lower Min.
func (e *explainer) fewer() error {
	if placed := e.result.Placed(); placed > 0 {
		e.found.Changes = append(e.found.Changes, Change{Fewer: e.Min - placed})
	}
	return nil
}

// without tries to remove each constraint across pods.
func (e *explainer) without() error {
	try := func(name string, g extension.Group) error {
		q := e.Question
		q.Group = g
		if fits, err := e.fits(q); err != nil || !fits {
			return err
		}
		e.found.Changes = append(e.found.Changes, Change{Without: name})
		return nil
	}
	for i := range e.Group.Constraints {
		g := e.Group
		g.Constraints = slices.Delete(slices.Clone(g.Constraints), i, i+1)
		if err := try(fmt.Sprintf("constraints[%d]", i), g); err != nil {
			return err
		}
	}
	for i := range e.Group.MaxDistinct {
		g := e.Group
		g.MaxDistinct = slices.Delete(slices.Clone(g.MaxDistinct), i, i+1)
		if err := try(fmt.Sprintf("maxDistinct[%d]", i), g); err != nil {
			return err
		}
	}
	return nil
}

func (e *explainer) fits(q Question) (bool, error) {
	r, err := Ask(e.context, q)
	return err == nil && r.Verdict == allocator.Satisfiable, err
}

// nodes tries copies of nodes: first of those on which pods compete, then of those with a placed pod, then of
// those on which Pod could run.
func (e *explainer) nodes() error {
	var like []int
	add := func(n int) {
		if n >= 0 && len(like) < mostNodes && !slices.Contains(like, n) {
			like = append(like, n)
		}
	}
	for _, r := range e.found.Rivals {
		add(r.Node)
	}
	for _, place := range e.result.Places {
		add(place.Node)
	}
	for n := range e.Nodes {
		if (&asker{Question: e.Question}).variant(e.found.Pod, n) >= 0 {
			add(n)
		}
	}
	for count := 1; count <= mostNodes; count++ {
		for _, n := range like {
			fits, err := e.fits(e.Question.withMore(n, count))
			if err != nil {
				return err
			}
			if fits {
				e.found.Changes = append(e.found.Changes, Change{Nodes: count, Like: n})
				return nil
			}
		}
	}
	return nil
}

// withMore is the question with additional copies of a node and its slices.
func (q Question) withMore(like, count int) Question {
	var published []*resourceapi.ResourceSlice
	nodes := len(q.Nodes)
	q.Nodes = slices.Clone(q.Nodes)
	for i := range count {
		node := q.Nodes[like].DeepCopy()
		node.Name = fmt.Sprintf("%s-more-%d", node.Name, i)
		if _, labelled := node.Labels[corev1.LabelHostname]; labelled {
			node.Labels[corev1.LabelHostname] = node.Name
		}
		q.Nodes = append(q.Nodes, node)
	}
	for pool := range q.State.Snapshot().Pools() {
		for slice := range pool.Slices() {
			published = append(published, slice)
			for _, node := range q.Nodes[nodes:] {
				if ptr.Deref(slice.Spec.NodeName, "") == q.Nodes[like].Name {
					made := slice.DeepCopy()
					suffix := strings.TrimPrefix(node.Name, q.Nodes[like].Name)
					made.Name, made.Spec.Pool.Name, made.Spec.NodeName = made.Name+suffix, made.Spec.Pool.Name+suffix, &node.Name
					published = append(published, made)
				}
			}
		}
	}
	q.State = q.State.Rebase(pools.Build(q.State.Snapshot().Gates(), published))
	original := func(node int) int {
		if node >= nodes {
			return like
		}
		return node
	}
	q.Pods = slices.Clone(q.Pods)
	for i := range q.Pods {
		if of := q.Pods[i].Variant; of != nil {
			q.Pods[i].Variant = func(node int) int { return of(original(node)) }
		}
	}
	if room := q.Room; room != nil {
		q.Room = func(node int, pods []int) bool { return room(original(node), pods) }
	}
	return q
}

// mostNamed is how many pods, and how many rivals, a sentence names.
const mostNamed = 3

// Sentences says what pods compete for, and what would have to change, without a full stop. Pod and node return
// names.
func (s *Shortfall) Sentences(pod, node func(int) string) []string {
	var list, rivals, changes []string
	for _, r := range s.Rivals {
		names := make([]string, len(r.Pods))
		for i, p := range r.Pods {
			names[i] = pod(p)
		}
		rivals = append(rivals, "with "+joinFew(names)+" for "+r.what()+" on node "+node(r.Node))
	}
	if len(rivals) > 0 {
		list = append(list, pod(s.Pod)+" competes "+joinFew(rivals))
	}
	for _, c := range s.Changes {
		changes = append(changes, c.text(node))
	}
	if len(changes) > 0 {
		list = append(list, "the group starts "+strings.Join(changes, ", or "))
	}
	return list
}

// joinFew joins the first names of a list, and counts the others.
func joinFew(list []string) string {
	text := strings.Join(list[:min(len(list), mostNamed)], ", ")
	if more := len(list) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (r *Rival) what() string {
	ids, noun := r.Devices, "device"
	if len(ids) == 0 {
		ids, noun = r.Counters, "counter set"
	}
	switch len(ids) {
	case 0:
		return "room"
	case 1:
		return noun + " " + ids[0].String()
	}
	return fmt.Sprintf("%ss %s and %d more", noun, ids[0], len(ids)-1)
}

func (c *Change) text(node func(int) string) string {
	switch {
	case c.Nodes == 1:
		return "with one more node like " + node(c.Like)
	case c.Nodes > 1:
		return fmt.Sprintf("with %d more nodes like %s", c.Nodes, node(c.Like))
	case c.Without != "":
		return "without " + c.Without
	}
	return fmt.Sprintf("with a minCount lower by %d", c.Fewer)
}
