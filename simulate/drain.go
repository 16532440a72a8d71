// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/dray-project/dray/nodefit"
)

// Drain removes real nodes and places their pods elsewhere: all of them, or nothing changes. DaemonSet pods,
// mirror pods and ended pods are removed with the node. So are pods that are being deleted, except those of a
// StatefulSet that still run: others have been made in their place already. The others are placed as
// kube-scheduler would: by priority, then node by node, oldest first. Claims that were generated for a pod are
// allocated again, and so are claims that no other pod uses. A claim that other pods use restricts the pod to
// where it can be used. What the pods of a group must have in common is not looked at: place those with Gang
// before. The result counts the pods. The error names a node that does not exist or an invalid pod, or is the
// context's. Then nothing changes.
func (m *Sim) Drain(ctx context.Context, on Nodes, p NodePolicy, nodes ...string) (Result, error) {
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

// placeEach places all pods of shapes, one after the other. If there is an error, some of them may be placed.
func (m *Sim) placeEach(ctx context.Context, shapes []*Shape, on Nodes, p NodePolicy) (Result, error) {
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

// evicted returns the pods that have to be placed elsewhere, in the order in which they are placed. Consecutive
// pods of one kind form a shape.
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

// moves reports whether a pod is placed elsewhere when its node is removed.
func moves(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner != nil && owner.Kind == "DaemonSet" {
		return false
	}
	// A StatefulSet makes a pod again once the old one is gone, as it has the same name. Other controllers do not wait.
	if pod.DeletionTimestamp != nil && (owner == nil || owner.Kind != "StatefulSet") {
		return false
	}
	return nodefit.Occupies(pod) || pod.Spec.NodeName == ""
}

// Departure says whether a node can be removed.
type Departure struct {
	Node Node
	// Possible is set if Drain would place all pods of the node. Undecided is set if the answer is neither yes
	// nor no.
	Possible, Undecided bool
	// Err says which pod of the node is invalid, so that Drain returns an error.
	Err error
}

// Drainable says for each real node of a set whether it could be removed: the result of Drain for that node
// alone, with the same set and policy. Results are in the order of the set.
//
// It takes time in proportion to the nodes and their kinds of pods, if there is much room or if nodes have
// equal pods. Other nodes are drained on a copy, and so are nodes whose pods share claims with others or get
// devices of pools of several nodes. Options.Budget applies to each node and kind. The error is the context's.
func (s *State) Drainable(ctx context.Context, nodes, on Nodes, p NodePolicy) ([]Departure, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	leaving := s.leaving(nodes)
	s = s.withReadSet() // reading these pods may have widened the read set
	on, err := on.fixed(s.world, &s.data)
	if err != nil {
		return nil, err
	}
	e := &drainer{state: s, on: on, policy: p, rooms: make(map[*podKind]int), trials: make(map[string]*trial)}
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
	head *podEntry // the list of pods that this was computed from
	// shapes are the pods to be placed elsewhere, as if each had its claims for itself.
	shapes []*Shape
	pods   int
	// joins are the pods that may share a claim, or hold devices of other nodes.
	joins []*podEntry
	err   error
}

// leaving returns the pods that would leave each real node of a set. It is cached by node, until the list of
// pods changes.
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

// holdsClaimsAlone reports whether no one else uses the claims of a pod on a real node, and they hold devices of that node
// only. Then they are deallocated when the pod leaves, like claims that were generated for a pod.
func (s *State) holdsClaimsAlone(entry *podEntry, node int) bool {
	return !slices.ContainsFunc(entry.claims, func(id int32) bool {
		rec := s.data.claimRecord(int(id))
		return !rec.only(node) || len(rec.shared) > 0 || !rec.usedBy(s.world.consumer(id, entry.pod))
	})
}

// drainer answers Drainable.
type drainer struct {
	state  *State
	on     Nodes
	policy NodePolicy
	// countable is set if no node is in the set twice.
	countable bool
	// rooms is the number of nodes on which a pod of a kind certainly fits, or noRoom if pods of the kind are
	// not separate.
	rooms  map[*podKind]int
	trials map[string]*trial
}

const noRoom = -1

// find answers for one node.
func (e *drainer) find(ctx context.Context, l *leaving, to *Departure) error {
	roomy, separate, err := e.enoughNodes(ctx, l)
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

// enoughNodes reports whether, for each kind, more nodes have room than pods leave the node. Then all pods fit
// elsewhere: each placed pod changes one node, so for the last one, an unchanged node with room is left. The
// drained node itself counts as one. separate is set if what the pods get on a node depends on that node alone.
func (e *drainer) enoughNodes(ctx context.Context, l *leaving) (roomy, separate bool, err error) {
	if slices.ContainsFunc(l.joins, func(entry *podEntry) bool { return !e.state.holdsClaimsAlone(entry, l.node) }) {
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

func (e *drainer) nodesWithRoom(ctx context.Context, k *podKind) (int, error) {
	c, err := e.state.world.NewCall(ctx)
	if err != nil {
		return 0, err
	}
	a := e.state.data.needsOf(e.state.world, k)
	if !a.separate(ctx) {
		return noRoom, nil
	}
	t, err := e.state.data.tally(&c, a, e.on)
	return t.nodes, err
}

// trial is the result of placing a node's pods while all nodes stay. It also holds for each node with equal
// pods to which none of them came: first fit passed over that node, and all others are the same without it.
type trial struct {
	// definite is set if no answer on the way was undecided.
	definite, placed bool
	nodes            []int // positions of the real nodes that pods came to
}

func (e *drainer) trial(ctx context.Context, l *leaving) (*trial, error) {
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
