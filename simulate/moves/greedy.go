// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"maps"
	"slices"

	"github.com/dray-project/dray/simulate"
)

// tries is the largest number of nodes that are tried for a pod of the first plan.
const tries = 1000

// firstPlan frees one target after the other, those that cost least first.
type firstPlan struct {
	*freeing
	sim   *simulate.Sim
	now   map[simulate.Node]int // how many targets of a node are free, where pods came or went
	moved map[int]bool          // by position in finder.pods
	order []simulate.Node       // to which pods are moved
	next  []int                 // by kind: the first of them that may take one
	steps []Step
	cost  float64
}

func (e *freeing) oneByOne(ctx context.Context) error {
	g := &firstPlan{freeing: e, sim: e.state.Sim(), now: make(map[simulate.Node]int), moved: make(map[int]bool)}
	g.order, g.next = e.destinations(), make([]int, len(e.kinds))
	for i := range e.targets {
		if e.gain == e.most {
			break
		}
		if err := g.freeTarget(ctx, &e.targets[i]); err != nil {
			return err
		}
	}
	o := &order{finder: e.finder, sim: g.sim, steps: g.steps, cost: g.cost}
	var set []movable
	for i := range e.pods {
		if g.moved[i] {
			set = append(set, e.pods[i])
		}
	}
	return e.keep(ctx, o, set, e.gain)
}

// freeTarget moves the pods that use a target, if more targets are free afterwards.
func (g *firstPlan) freeTarget(ctx context.Context, t *target) error {
	g.sim.Fork()
	first, cost, next := len(g.steps), g.cost, slices.Clone(g.next)
	var went []int
	undo := func() {
		g.sim.Revert()
		g.steps, g.cost, g.next = g.steps[:first], cost, next
		for _, pod := range went {
			delete(g.moved, pod)
		}
	}
	for _, pod := range t.pods {
		if g.moved[pod] {
			continue
		}
		step, err := g.move(ctx, &g.pods[pod])
		if err != nil {
			return err
		}
		if step == nil {
			undo()
			return nil
		}
		g.steps, g.cost, g.moved[pod], went = append(g.steps, *step), g.cost+g.pods[pod].cost, true, append(went, pod)
	}
	state := g.sim.State()
	gain := g.gain
	changed := make(map[simulate.Node]int)
	for i := range g.steps[first:] {
		step := &g.steps[first+i]
		for _, node := range []simulate.Node{step.From, step.To} {
			if _, seen := changed[node]; !seen {
				changed[node] = g.count(state, node)
				gain += changed[node] - g.freeNow(node)
			}
		}
	}
	if gain <= g.gain {
		undo()
		return nil
	}
	g.sim.Commit()
	g.gain = gain
	maps.Copy(g.now, changed)
	return nil
}

// freeNow is how many targets of a node are free after the steps that are kept.
func (g *firstPlan) freeNow(node simulate.Node) int {
	if n, known := g.now[node]; known {
		return n
	}
	return g.before[node]
}

// move moves a pod to the first node where it takes no free target. It returns nil if there is none; then the pod stays evicted.
func (g *firstPlan) move(ctx context.Context, pod *movable) (*Step, error) {
	if err := g.sim.Evict(pod.Pod); err != nil {
		return nil, err
	}
	for range tries {
		at := g.next[pod.kind]
		if at == len(g.order) {
			return nil, nil
		}
		node := g.order[at]
		if g.goal == WholeDevices || node != pod.from {
			step, err := g.moveTo(ctx, pod, node)
			if step != nil || err != nil {
				return step, err
			}
		}
		g.next[pod.kind]++
	}
	return nil, nil
}

// moveTo puts an evicted pod on a node if it fits there and takes no free target. Else it returns nil.
func (g *firstPlan) moveTo(ctx context.Context, pod *movable, node simulate.Node) (*Step, error) {
	before := g.sim.State()
	g.sim.Fork()
	result, err := g.put(ctx, g.sim, pod.Pod, node)
	if err != nil {
		return nil, err
	}
	for placement := range result.Placements() {
		if g.count(g.sim.State(), node) >= g.count(before, node) {
			g.sim.Commit()
			return &Step{Pod: pod.Pod, From: pod.from, To: node, placement: &placement}, nil
		}
	}
	g.sim.Revert()
	return nil, nil
}

// destinations lists the nodes in the order in which they are tried for moved pods. Nodes that cannot be empty come first. The others follow
// in the reverse order of targets.
func (e *freeing) destinations() []simulate.Node {
	list := make([]simulate.Node, 0, len(e.nodes))
	seen := make(map[simulate.Node]bool)
	for i := range e.targets {
		seen[e.targets[i].Node] = true
	}
	for _, node := range e.nodes {
		if !seen[node] && e.before[node] == 0 {
			list = append(list, node)
		}
	}
	for _, t := range slices.Backward(e.targets) {
		if seen[t.Node] {
			list = append(list, t.Node)
			delete(seen, t.Node)
		}
	}
	return list
}
