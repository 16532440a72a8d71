// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"
	"math"
	"slices"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/internal/subsets"
)

// search tries sets of pods, the cheapest first. It skips sets that free too few targets even if their pods are only evicted.
func (e *freeing) search(ctx context.Context) error {
	costs := make([]float64, len(e.pods))
	for i := range e.pods {
		costs[i] = e.pods[i].cost
	}
	p := newPotential(len(e.pods), e.targets)
	unsure := math.Inf(1) // what the cheapest set costs of which it is not known what can be free after it
	tried := 0
	for members, cost := range subsets.ByCost(costs) {
		if e.gain == e.most && !e.better(cost, 0) {
			break
		}
		if tried++; tried > e.Sets || e.spent/manyTimes >= e.Attempts {
			unsure = min(unsure, cost)
			break
		}
		can := min(p.of(members), e.most)
		if can < e.gain || can == e.gain && !e.better(cost, 0) {
			continue
		}
		set := make([]movable, len(members))
		for i, at := range members {
			set[i] = e.pods[at]
		}
		sure, err := e.attempt(ctx, set, cost, can)
		if err != nil {
			return err
		}
		if !sure {
			unsure = min(unsure, cost)
		}
	}
	if e.result.Bound = min(e.result.Cost, unsure); math.IsInf(unsure, 1) {
		e.most = e.gain
	}
	return nil
}

// better reports whether a plan is better than the one there is if it leaves as much free.
func (e *freeing) better(cost float64, room int) bool {
	return cost < e.result.Cost || cost == e.result.Cost && room < e.result.Room
}

// attempt searches for an order of a set that frees more targets, or as many at less cost. can is the upper bound of the gain.
// sure is false if the search was cut short or undecided.
func (e *freeing) attempt(ctx context.Context, set []movable, cost float64, can int) (sure bool, err error) {
	left := e.Attempts
	defer func() { e.spent += e.Attempts - left }()
	for want := e.gain; want <= can; want++ {
		for room := 0; room <= len(set); room++ {
			if want == e.gain && !e.better(cost, room) {
				break
			}
			o := e.order(set)
			o.left, o.room = left, room
			gain := 0
			o.end = func(context.Context) (bool, error) {
				gain = e.gainOf(o)
				return gain >= want, nil
			}
			done, err := o.all(ctx)
			if left = o.left; err != nil || o.doubts && !done {
				return false, err
			}
			if done {
				want = gain
				if err := e.keep(ctx, o, set, gain); err != nil {
					return false, err
				}
				break
			}
		}
		if want > e.gain {
			return true, nil // there is no way for any room
		}
	}
	return true, nil
}

// gainOf returns how many more targets are free after the steps than before.
func (e *freeing) gainOf(o *order) int {
	state := o.sim.State()
	gain := 0
	var seen []simulate.Node
	for i := range o.steps {
		for _, node := range []simulate.Node{o.steps[i].From, o.steps[i].To} {
			if node != (simulate.Node{}) && !slices.Contains(seen, node) {
				seen = append(seen, node)
				gain += e.count(state, node) - e.before[node]
			}
		}
	}
	return gain
}

// keep takes the steps of an order as the result.
func (e *freeing) keep(ctx context.Context, o *order, set []movable, gain int) error {
	if err := o.readClaims(ctx); err != nil {
		return err
	}
	e.gain = gain
	e.result.Plan = Plan{Possible: true, Steps: slices.Clone(o.steps), Cost: o.cost, Room: o.room}
	for i := range set {
		e.result.Pods = append(e.result.Pods, set[i].Pod)
	}
	e.result.Freed = e.freed(o.sim.State())
	return nil
}

// freed lists the targets that are free in a State and were not before.
func (e *freeing) freed(state *simulate.State) []Target {
	var list []Target
	for _, node := range e.nodes {
		for one := range e.free(state, node) {
			if !e.freeBefore[one] {
				list = append(list, one)
			}
		}
	}
	return list
}
