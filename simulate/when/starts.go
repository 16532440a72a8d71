// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/simulate"
)

// Wait is a gang of waiting pods: they start together, or not at all.
type Wait struct {
	// Pods are on no node. No pod is in two Waits. They are placed as by simulate.State.Demands.
	Pods []*corev1.Pod
	// Topologies are what the pods must have in common.
	Topologies []simulate.Topology
	// Lasts is how long the pods run once they have started. Zero or less is unknown: they never end.
	Lasts time.Duration
}

// Queue is a queue of pods that wait for running pods to end.
type Queue struct {
	// Now is the first time at which pods may start. Pods whose end is not after Now have ended.
	Now time.Time
	// Ends are the expected ends of running pods, in any order. Pods without one never end.
	Ends []End
	// Waits are in the order of the queue.
	Waits []Wait
	// Backfill lets later Waits start before earlier ones, which may delay these. Without it, a Wait starts
	// after all earlier ones have.
	Backfill bool
	// On are the real nodes on which the pods may start. Policy chooses among them.
	On     simulate.Nodes
	Policy simulate.NodePolicy
}

// Start is when the pods of a Wait start.
type Start struct {
	// Possible is set if the pods start, at the time At.
	Possible bool
	At       time.Time
	// After lists the ends that made room: those on the nodes where the pods start, and all at the time At, the
	// earliest first. It includes ends of pods of the queue.
	After []End
	// Undecided is set if an attempt before At was neither a yes nor a no, or a no without a proof, see
	// simulate.Result.NoProof; if the pods do not start, any attempt, or one of the Wait that they wait for.
	Undecided bool
	// Result is the result of the last attempt: it has the placements, or the reasons why the pods do not fit.
	// It is empty if there was none, as an earlier Wait never started.
	Result simulate.Result
}

// Starts computes when each Wait of a queue starts. That is the first time, Now or the time of an end, at which
// Sim.Gang can place the pods after all pods that have ended by then are evicted. Pods of a started Wait with a
// known duration end, too. The result has a Start for each Wait. The State does not change.
//
// It takes time in proportion to the ends: a Sim.Evict for each, and a Sim.Gang for each Wait that may start
// then. Without Backfill, only the first Wait is tried. With Backfill, Waits that ask for the same are tried
// once.
//
// The error names an end whose pod is on no node or named twice, or a Wait and what is wrong with its pods or
// topologies; or it is the context's.
func Starts(ctx context.Context, state *simulate.State, q Queue) ([]Start, error) {
	r := &run{Queue: q, sim: state.Sim(), starts: make([]Start, len(q.Waits)), ended: make(map[simulate.Node][]End)}
	if err := r.readWaits(state); err != nil {
		return nil, err
	}
	if err := r.readEnds(); err != nil {
		return nil, err
	}
	if err := r.pass(q.Now); err != nil {
		return nil, err
	}
	for {
		waiting, err := r.begin(ctx)
		if err != nil {
			return nil, err
		}
		if !waiting || len(r.ends) == 0 {
			r.leaveOpen()
			return r.starts, nil
		}
		if err := r.pass(r.ends[0].At); err != nil {
			return nil, err
		}
	}
}

// run is the state of a queue at one time.
type run struct {
	Queue
	sim     *simulate.Sim
	now     time.Time
	ends    []endOnNode // in the future, the earliest first
	ended   map[simulate.Node][]End
	latest  []End // those at the present time
	demands [][]simulate.Demand
	asks    []string // by Wait: a key, equal for Waits that ask for the same
	starts  []Start
}

// endOnNode is an end with the node of its pod.
type endOnNode struct {
	End
	node simulate.Node
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func (r *run) readEnds() error {
	seen := make(map[types.NamespacedName]bool)
	for i, end := range r.Ends {
		if end.Pod == nil {
			return fmt.Errorf("end %d: the pod is nil", i)
		}
		key := keyOf(end.Pod)
		node, found := r.sim.NodeOf(end.Pod)
		switch {
		case !found:
			return fmt.Errorf("end %d: pod %s is on no node", i, key)
		case seen[key]:
			return fmt.Errorf("end %d: pod %s has two ends", i, key)
		}
		seen[key] = true
		r.ends = append(r.ends, endOnNode{end, node})
	}
	slices.SortStableFunc(r.ends, func(a, b endOnNode) int { return a.At.Compare(b.At) })
	return nil
}

func (r *run) readWaits(state *simulate.State) error {
	seen := make(map[types.NamespacedName]bool)
	var all []*corev1.Pod
	for i, wait := range r.Waits {
		for _, pod := range wait.Pods {
			if pod == nil {
				return fmt.Errorf("wait %d: a pod is nil", i)
			}
			if seen[keyOf(pod)] {
				return fmt.Errorf("wait %d: pod %s waits twice", i, keyOf(pod))
			}
			seen[keyOf(pod)] = true
			all = append(all, pod)
		}
		demands, err := state.Demands(wait.Pods)
		if err != nil {
			return fmt.Errorf("wait %d: %w", i, err)
		}
		r.demands = append(r.demands, demands)
	}
	return r.compare(state, all)
}

// compare computes the keys of Waits in asks.
func (r *run) compare(state *simulate.State, all []*corev1.Pod) error {
	shapes, err := state.Shapes(all)
	if err != nil {
		return err
	}
	kinds := make(map[*corev1.Pod]int)
	for kind, shape := range shapes {
		for _, pod := range shape.Pods {
			kinds[pod] = kind
		}
	}
	for i, demands := range r.demands {
		ask := fmt.Appendf(nil, "%#v", r.Waits[i].Topologies)
		for _, demand := range demands {
			ask = fmt.Appendf(ask, " %d of %d", demand.Count, kinds[demand.Shape.Pods[0]])
		}
		r.asks = append(r.asks, string(ask))
	}
	return nil
}

// pass advances to a time, and evicts the pods that have ended by then.
func (r *run) pass(to time.Time) error {
	r.now, r.latest = to, nil
	for len(r.ends) > 0 && !r.ends[0].At.After(to) {
		end := r.ends[0]
		r.ends = r.ends[1:]
		if err := r.sim.Evict(end.Pod); err != nil {
			return err
		}
		r.ended[end.node] = append(r.ended[end.node], end.End)
		r.latest = append(r.latest, end.End)
	}
	return nil
}

// begin starts the Waits that fit now, and reports whether others are left.
func (r *run) begin(ctx context.Context) (waiting bool, err error) {
	failed := make(map[string]*simulate.Result) // results since the last start, by key
	for i := range r.Waits {
		start := &r.starts[i]
		if start.Possible {
			continue
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		result := failed[r.asks[i]]
		if result == nil {
			got, err := r.sim.Gang(ctx, r.demands[i], r.Waits[i].Topologies, r.On, r.Policy)
			if err != nil {
				return false, fmt.Errorf("wait %d: %w", i, err)
			}
			result = &got
		}
		if start.Result = *result; result.All() {
			start.Possible, start.At = true, r.now
			r.started(start, r.Waits[i].Lasts)
			clear(failed)
			continue
		}
		waiting, failed[r.asks[i]] = true, result
		start.Undecided = start.Undecided || result.Undecided > 0 || result.NoProof
		if !r.Backfill {
			return true, nil
		}
	}
	return waiting, nil
}

// leaveOpen has Waits that were not tried undecided if the Wait that they wait for is.
func (r *run) leaveOpen() {
	first := slices.IndexFunc(r.starts, func(s Start) bool { return !s.Possible })
	if first < 0 || r.Backfill {
		return
	}
	for i := first + 1; i < len(r.starts); i++ {
		r.starts[i].Undecided = r.starts[first].Undecided
	}
}

// started records which ends made room for pods, and when these pods end.
func (r *run) started(start *Start, lasts time.Duration) {
	on := make(map[simulate.Node]bool)
	for placement := range start.Result.Placements() {
		if !on[placement.Node] {
			on[placement.Node] = true
			start.After = append(start.After, r.ended[placement.Node]...)
		}
		if lasts > 0 {
			r.willEnd(endOnNode{End{placement.Pod, r.now.Add(lasts)}, placement.Node})
		}
	}
	for _, end := range r.latest {
		if !slices.Contains(start.After, end) {
			start.After = append(start.After, end)
		}
	}
	slices.SortStableFunc(start.After, func(a, b End) int { return a.At.Compare(b.At) })
}

// willEnd inserts an end, after those at the same time.
func (r *run) willEnd(end endOnNode) {
	at, _ := slices.BinarySearchFunc(r.ends, end.At, func(e endOnNode, at time.Time) int {
		if e.At.After(at) {
			return 1
		}
		return -1
	})
	r.ends = slices.Insert(r.ends, at, end)
}
