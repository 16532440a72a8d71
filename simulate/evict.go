// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/subsets"
)

// Drain removes real nodes and places their pods elsewhere: all of them, or nothing changes. Pods of
// DaemonSets, mirror pods and pods that have ended go with the node. The others are placed as
// kube-scheduler would: by priority, then node by node in the order in which they came. Claims made
// for a pod are allocated anew, and so is a claim that no pod is left to use; one that pods elsewhere
// use ties the pod to where it can be used. The result counts the pods. The error names a node that
// does not exist or a pod that cannot be understood, or is the context's; then nothing changed.
func (m *Sim) Drain(ctx context.Context, on Nodes, p Policy, nodes ...string) (Result, error) {
	return m.allOrNothing(func() (Result, error) {
		entries, err := m.remove(nodes)
		if err != nil {
			return Result{}, err
		}
		shapes, err := m.world.evicted(entries, m.world.kindOfEntry)
		if err != nil {
			return Result{}, err
		}
		if on, err = on.fixed(m.world, &m.data); err != nil {
			return Result{}, err
		}
		return m.placeEach(ctx, shapes, on, p)
	})
}

// placeEach places all pods of shapes, one after the other. With an error, some of them may be placed.
func (m *Sim) placeEach(ctx context.Context, shapes []*Shape, on Nodes, p Policy) (Result, error) {
	result := Result{world: m.world}
	for _, shape := range shapes {
		placed, err := m.place(ctx, shape, len(shape.Pods), on, p)
		if err != nil {
			return Result{}, err
		}
		result.merge(placed)
	}
	return result, nil
}

// evicted lists the pods that have to be placed elsewhere, those one after the other that are of one kind
// together.
func (w *world) evicted(entries []*podEntry, kindOf func(*podEntry) (*podKind, error)) ([]*Shape, error) {
	leaving := make([]*podEntry, 0, len(entries))
	for _, entry := range entries {
		if moves(entry.pod) {
			leaving = append(leaving, entry)
		}
	}
	slices.SortStableFunc(leaving, func(a, b *podEntry) int {
		return cmp.Compare(schedulinghelpers.PodPriority(b.pod), schedulinghelpers.PodPriority(a.pod))
	})
	var shapes []*Shape
	for _, entry := range leaving {
		kind, err := kindOf(entry)
		if err != nil {
			return nil, fmt.Errorf("pod on a node to be drained: %w", err)
		}
		if last := len(shapes) - 1; last >= 0 && shapes[last].kind.key == kind.key {
			shapes[last].Pods = append(shapes[last].Pods, entry.pod)
			continue
		}
		shapes = append(shapes, &Shape{Pods: []*corev1.Pod{entry.pod}, kind: kind, claims: w.resolver})
	}
	return shapes, nil
}

// moves reports whether a pod is placed elsewhere when its node goes.
func moves(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return false
	}
	return nodefit.Occupies(pod) || pod.Spec.NodeName == ""
}

// Departure is whether a node could go.
type Departure struct {
	Node Node
	// Possible is set if Drain places all pods of the node, Undecided if that is neither a yes nor a no.
	Possible, Undecided bool
	// Err is why a pod of the node cannot be understood, so that Drain is an error.
	Err error
}

// Drainable tells of each of the real nodes of a set whether it could go: what Drain of that node alone,
// with the same set to place on and the same policy, would say. Nodes come in the order of the set.
//
// It takes time in proportion to the nodes and to their kinds of pods where there is much room, or where
// nodes have the same pods; other nodes are drained on a copy, and so are those with pods that share
// claims with others or get devices of pools of several nodes. Options.Budget is for each node and kind. The
// error is the context's.
func (s *State) Drainable(ctx context.Context, nodes, on Nodes, p Policy) ([]Departure, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	leaving := s.leaving(nodes)
	s = s.seen() // the pods may read more of devices than those before
	on, err := on.fixed(s.world, &s.data)
	if err != nil {
		return nil, err
	}
	e := &exits{state: s, on: on, policy: p, rooms: make(map[*podKind]int), trials: make(map[string]*trial)}
	e.countable = e.on.disjoint()
	departures := make([]Departure, len(leaving))
	for i, l := range leaving {
		departures[i] = Departure{Node: Node{index: l.node, name: s.data.real.At(l.node).facts.Node.Name}, Err: l.err}
		if l.err == nil {
			if err := e.find(ctx, l, &departures[i]); err != nil {
				return nil, err
			}
		}
	}
	return departures, nil
}

// leaving are the pods that leave a node when it is drained.
type leaving struct {
	node int
	head *podEntry // the list of pods of which this was found out
	// shapes are the pods as they are placed elsewhere if each has its claims for itself.
	shapes []*Shape
	pods   int
	// joins are those that may share a claim, or free devices of other nodes.
	joins []*podEntry
	err   error
}

// leaving finds out about the real nodes of a set. It is remembered by node, for one list of pods.
func (s *State) leaving(nodes Nodes) []*leaving {
	w := s.world
	var known, next []*leaving
	if before := w.leaving.Load(); before != nil {
		known = *before
	}
	var list []*leaving
	for _, part := range nodes.list() {
		for i, rec := range s.data.realIn(part) {
			if i < len(known) && known[i] != nil && known[i].head == rec.pods {
				list = append(list, known[i])
				continue
			}
			if next == nil {
				next = make([]*leaving, max(s.data.real.Len(), len(known)))
				copy(next, known)
			}
			next[i] = w.leavingFrom(i, rec.pods)
			list = append(list, next[i])
		}
	}
	if next != nil && !w.options.Memory.Off {
		w.leaving.Store(&next)
	}
	return list
}

func (w *world) leavingFrom(node int, pods *podEntry) *leaving {
	l := &leaving{node: node, head: pods}
	entries := pods.list()
	l.joins = slices.DeleteFunc(slices.Clone(entries), func(e *podEntry) bool { return !e.joins })
	l.shapes, l.err = w.evicted(entries, func(e *podEntry) (*podKind, error) {
		if e.joins {
			return w.kindWith(e.pod, true)
		}
		return w.kindOfEntry(e)
	})
	for _, shape := range l.shapes {
		l.pods += len(shape.Pods)
	}
	return l
}

// alone reports whether nobody else uses the claims of a pod on a real node, and they hold devices of that node only.
// Once the pod has left, they are open, as those are that are made for a pod.
func (s *State) alone(entry *podEntry, node int) bool {
	return !slices.ContainsFunc(entry.claims, func(id int32) bool {
		rec := s.data.claimRecord(int(id))
		return !rec.only(node) || len(rec.shared) > 0 || !rec.usedBy(s.world.consumer(id, entry.pod))
	})
}

// exits finds out which nodes can go.
type exits struct {
	state  *State
	on     Nodes
	policy Policy
	// countable is set if no node is twice in the set.
	countable bool
	// rooms is on how many nodes a pod of a kind has room for sure, noRoom for kinds of which pods do
	// not stand for themselves.
	rooms  map[*podKind]int
	trials map[string]*trial
}

const noRoom = -1

// find finds out about one node.
func (e *exits) find(ctx context.Context, l *leaving, to *Departure) error {
	roomy, separate, err := e.roomy(ctx, l)
	if err != nil {
		return err
	}
	if to.Possible = roomy; roomy {
		return nil
	}
	if separate && e.policy.score == nil {
		t, err := e.trial(ctx, l)
		if err != nil {
			return err
		}
		if t.definite && !slices.Contains(t.nodes, l.node) {
			to.Possible = t.placed
			return nil
		}
	}
	result, err := e.state.Sim().Drain(ctx, e.on, e.policy, to.Node.name)
	to.Possible, to.Undecided = result.All(), result.Undecided > 0
	return err
}

// roomy reports whether all pods of a node have a place elsewhere, because for each kind there are more
// nodes with room than pods that leave. The node itself may be one of them. Each pod that is placed changes
// one node, so when the last one comes, a node with room for it is as it was before. Separate is set if
// what the pods get on a node depends on that node alone.
func (e *exits) roomy(ctx context.Context, l *leaving) (roomy, separate bool, err error) {
	if slices.ContainsFunc(l.joins, func(entry *podEntry) bool { return !e.state.alone(entry, l.node) }) {
		return l.pods == 0, false, nil
	}
	roomy, separate = e.countable, true
	for _, shape := range l.shapes {
		nodes, known := e.rooms[shape.kind]
		if !known {
			if nodes, err = e.nodesWithRoom(ctx, shape.kind); err != nil {
				return false, false, err
			}
			e.rooms[shape.kind] = nodes
		}
		roomy, separate = roomy && nodes > l.pods, separate && nodes != noRoom
	}
	return roomy && separate || l.pods == 0, separate, nil
}

func (e *exits) nodesWithRoom(ctx context.Context, k *podKind) (int, error) {
	c, err := e.state.world.NewCall(ctx)
	if err != nil {
		return 0, err
	}
	a := e.state.data.asked(e.state.world, k)
	if !a.separate(ctx) {
		return noRoom, nil
	}
	t, err := e.state.data.tally(&c, a, e.on)
	return t.nodes, err
}

// trial is what comes of placing the pods of a node while all nodes stay. If none of them comes to a node
// with the same pods, placing them once that node is gone is the same: first fit passed the node by, and
// all others are as they were.
type trial struct {
	// definite is set if no answer on the way was undecided.
	definite, placed bool
	nodes            []int // real ones that pods came to
}

func (e *exits) trial(ctx context.Context, l *leaving) (*trial, error) {
	var key []byte
	for _, shape := range l.shapes {
		key = fmt.Appendf(key, "%p %d ", shape.kind, len(shape.Pods))
	}
	if known := e.trials[string(key)]; known != nil {
		return known, nil
	}
	result, err := e.state.Sim().placeEach(ctx, l.shapes, e.on, e.policy)
	if err != nil {
		return nil, err
	}
	t := &trial{definite: result.Undecided == 0, placed: result.All()}
	for i := range result.segments {
		if node := result.segments[i].node; node.template == nil {
			t.nodes = append(t.nodes, node.index)
		}
	}
	e.trials[string(key)] = t
	return t, nil
}

// VictimSet is pods of a node that have to go for another pod to fit there.
type VictimSet struct {
	Node Node
	// Pods is empty if the pod fits as it is.
	Pods []*corev1.Pod
	Cost float64
	// Least is set if no other set on the node costs less. Otherwise the budget ended the proof, or
	// an answer on the way was undecided.
	Least bool
}

// maxVictimSets is how many sets are tried on one node before the proof is given up.
const maxVictimSets = 4096

// Victims lists the cheapest sets of pods that have to go for a pod of a shape to fit, up to n sets on
// different real nodes, cheapest first, then in the order of the nodes. A pod of which the cost is
// infinite, negative or not a number stays. Devices of a claim that other pods use as well are not
// freed. The number of sets that are tried is bounded for each node. Sim.Evict applies a set. The error is the context's.
func (s *State) Victims(ctx context.Context, shape *Shape, on Nodes, cost func(*corev1.Pod) float64, n int) ([]VictimSet, error) {
	s = s.seen()
	c, err := s.world.NewCall(ctx)
	if err != nil {
		return nil, err
	}
	if shape, err = shape.in(s.world); err != nil {
		return nil, err
	}
	var found []VictimSet
	for _, part := range on.list() {
		for i, rec := range s.data.realIn(part) {
			v := &victims{state: s, call: &c, shape: shape, node: Node{index: i, name: rec.facts.Node.Name}}
			v.add(rec, cost)
			set, err := v.cheapest()
			if err != nil {
				return nil, err
			}
			if set != nil {
				found = append(found, *set)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b VictimSet) int { return cmp.Compare(a.Cost, b.Cost) })
	return found[:min(len(found), max(0, n))], nil
}

// victims looks for the cheapest set on one node.
type victims struct {
	state  *State
	call   *onenode.Call
	shape  *Shape
	node   Node
	pods   []victim // cheapest first
	doubts bool
}

type victim struct {
	*podEntry
	cost float64
}

func (v *victims) add(rec *nodeRecord, cost func(*corev1.Pod) float64) {
	for entry := rec.pods; entry != nil; entry = entry.before {
		if c := cost(entry.pod); c >= 0 && !math.IsInf(c, 1) {
			v.pods = append(v.pods, victim{entry, c})
		}
	}
	slices.Reverse(v.pods) // in the order in which they were placed
	slices.SortStableFunc(v.pods, func(a, b victim) int { return cmp.Compare(a.cost, b.cost) })
}

// cheapest tries sets in the order of what they cost. The first that suffices is the cheapest.
func (v *victims) cheapest() (*VictimSet, error) {
	if ok, err := v.suffices(nil); ok || err != nil {
		return v.set(nil, true), err
	}
	all := make([]int, len(v.pods))
	for i := range all {
		all[i] = i
	}
	if ok, err := v.suffices(all); !ok || err != nil {
		return nil, err
	}
	needed, others, err := v.needed(all)
	if err != nil {
		return nil, err
	}
	if ok, err := v.suffices(needed); ok || err != nil {
		return v.set(needed, !v.doubts), err
	}
	costs := make([]float64, len(others))
	for i, at := range others {
		costs[i] = v.pods[at].cost
	}
	tried := 0
	for members := range subsets.ByCost(costs) {
		if tried++; tried > maxVictimSets {
			break
		}
		set := slices.Clone(needed)
		for _, i := range members {
			set = append(set, others[i])
		}
		slices.Sort(set)
		ok, err := v.suffices(set)
		if err != nil {
			return nil, err
		}
		if ok {
			return v.set(set, !v.doubts), nil
		}
	}
	return v.reduced(all)
}

// needed tells the pods apart without each of which the others do not suffice.
func (v *victims) needed(all []int) (needed, others []int, err error) {
	for i := range all {
		ok, err := v.suffices(slices.Delete(slices.Clone(all), i, i+1))
		if err != nil {
			return nil, nil, err
		}
		if ok {
			others = append(others, i)
		} else {
			needed = append(needed, i)
		}
	}
	return needed, others, nil
}

// reduced gives pods back, the dearest first, as long as the rest suffices.
func (v *victims) reduced(members []int) (*VictimSet, error) {
	for i := len(members) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(members), i, i+1)
		ok, err := v.suffices(without)
		if err != nil {
			return nil, err
		}
		if ok {
			members = without
		}
	}
	return v.set(members, false), nil
}

func (v *victims) set(members []int, least bool) *VictimSet {
	set := &VictimSet{Node: v.node, Least: least}
	for _, i := range members {
		set.Pods = append(set.Pods, v.pods[i].pod)
		set.Cost += v.pods[i].cost
	}
	return set
}

// suffices reports whether the pod fits once some pods are gone.
func (v *victims) suffices(members []int) (bool, error) {
	m := v.state.Sim()
	for _, i := range members {
		m.free(v.node, v.pods[i].podEntry)
	}
	a := m.data.asked(m.world, v.shape.kind)
	if a.refused != nil {
		return false, nil //nolint:nilerr // such a pod fits nowhere
	}
	rec, _ := m.data.record(v.node)
	answer, _, err := a.on(v.call, &m.data, v.node, &rec)
	if err != nil {
		return false, err
	}
	v.doubts = v.doubts || answer.Verdict == onenode.Undecided || answer.Verdict == onenode.Failed
	return answer.Verdict == onenode.Fits, nil
}
