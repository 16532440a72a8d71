// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alike

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/shape"
)

// Search searches for the answer of a node. The answer is nil if there is an error, or if the budget cut the
// search short. Supposed is set if u is not the usage of the question.
type Search func(view cluster.NodeView, u eligibility.Usage, supposed bool) (*Answer, error)

// Ask returns the remembered answer of an equivalent node, or else searches. The place is that of the node, nil
// if there is none.
func (p *Recall) Ask(ctx context.Context, u *cluster.State, node *corev1.Node, place *cluster.Place, search Search) (*Answer, error) {
	if place == nil || p.kind == nil {
		view, err := u.Snapshot().GatherPools(node)
		if err != nil {
			return nil, err
		}
		if p.kind == nil {
			p.memory.counters.Searches.Add(1)
			return search(view, u, false)
		}
		state, _ := p.readSet.state(ctx, &view, u)
		return p.answerIn(ctx, state, view, u, search, false)
	}
	view := cluster.NodeView{Node: node, Place: place}
	var unusedFits *Answer
	if source := u.Source(); source != nil && !place.UseEnables {
		// Reading the usage has a cost. It is not needed if the node has no answer even with nothing in use.
		known, err := p.idleAnswer(ctx, view, place, search)
		if err != nil || known != nil && !known.Satisfiable && !known.Literal {
			return known, err
		}
		unusedFits = known
	}
	state, numbered := place.Number(p.owner, u)
	if !numbered {
		state, _ = p.readSet.state(ctx, &view, u)
		if ctx.Err() == nil {
			place.SetNumber(p.owner, u, state)
		}
	}
	if unusedFits != nil && unusedFits.Satisfiable && state != 0 && p.known(state) == nil && place.Separate && idleAnswerHolds(unusedFits, &view, u) {
		known := &Answer{Finding: unusedFits.Finding} // a copy, as answers are compared by address
		p.remember(state, known)
		return known, nil
	}
	return p.answerIn(ctx, state, view, u, search, false)
}

// idleAnswerHolds reports whether the answer with nothing in use is that with the actual usage: none of its devices is in
// use. Usage rules out solutions and permits no new ones, so the first solution stays the first. A search
// without a device looks at nothing that it would not have looked at with it.
//
// This holds for devices that are used exclusively and draw on no counters, as a policy reads nothing of other
// such devices.
func idleAnswerHolds(a *Answer, view *cluster.NodeView, u *cluster.State) bool {
	for _, pv := range view.Pools {
		if _, shares := u.Pool(pv.Pool).NextShared(0); shares {
			return false
		}
	}
	return !slices.ContainsFunc(a.Choices, func(c model.Choice) bool {
		pool, i := model.DeviceAt(view.Pools, c.Place)
		return u.Pool(pool).InUse(i)
	})
}

// unused is the state in which nothing is in use.
var unused *cluster.State

// idle is the owner under which a place caches its state with nothing in use.
type idle struct{ *readSet }

// idleAnswer is the answer with nothing in use. It is nil if there is none, or if no other node could share it.
func (p *Recall) idleAnswer(ctx context.Context, view cluster.NodeView, place *cluster.Place, search Search) (*Answer, error) {
	state, numbered := place.Number(idle{p.readSet}, nil)
	if !numbered {
		var unclassed bool
		if state, unclassed = p.readSet.state(ctx, &view, unused); unclassed {
			state = 0
		}
		if ctx.Err() == nil {
			place.SetNumber(idle{p.readSet}, nil, state)
		}
	}
	if state == 0 || p.known(state) == nil && !p.cacheable(ctx, &view) {
		return nil, nil
	}
	known, err := p.answerIn(ctx, state, view, unused, search, true)
	if ctx.Err() != nil {
		return nil, err
	}
	return known, nil // an error may not occur with the actual usage
}

// answerIn returns the remembered answer of a state, or else searches. State 0 means that the node is
// equivalent to no other.
func (p *Recall) answerIn(ctx context.Context, state uint32, view cluster.NodeView, u eligibility.Usage, search Search, supposed bool) (*Answer, error) {
	if known := p.known(state); known != nil {
		return known, nil
	}
	p.memory.counters.Searches.Add(1)
	found, err := search(view, u, supposed)
	if found != nil && state != 0 && p.cacheable(ctx, &view) {
		p.remember(state, found)
	}
	return found, err
}

// cacheable reports whether the devices that are not on the node make no difference: no selector fails on them.
func (p *Recall) cacheable(ctx context.Context, view *cluster.NodeView) bool {
	for _, pv := range view.Pools {
		if len(pv.Here) == len(pv.Devices) {
			continue
		}
		for i, onNode := range pv.All() {
			if !onNode && !p.evaluates(ctx, pv.Pool.Devices[i].Shape) {
				return false
			}
		}
	}
	return true
}

func (p *Recall) evaluates(ctx context.Context, of *shape.Shape) bool {
	for _, f := range p.Filters {
		if _, err := p.memory.evaluator.Judge(ctx, f, of); err != nil {
			return false
		}
	}
	return true
}

// Tally returns the known states of places, nil if the problem has no kind.
func (p *Recall) Tally(places *cluster.Places, u *cluster.State) *cluster.Tally {
	if p.kind == nil {
		return nil
	}
	return places.Tally(p.owner, u)
}

// Known is the remembered answer for the i-th place of a tally, nil if there is none.
func (p *Recall) Known(tally *cluster.Tally, i int) *Answer { return p.known(tally.Number(i)) }
