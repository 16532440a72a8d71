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

// Search looks for the answer of a node that is like none before it. The answer is nil if there is
// no definite one, or an error. Supposed is set if it is about another usage than was asked about.
type Search func(view cluster.NodeView, u eligibility.Usage, supposed bool) (*Answer, error)

// Ask returns the answer of a node that is like the one asked about, or searches. The place is that
// of the node, nil if it has none.
func (p *Problem) Ask(ctx context.Context, u *cluster.State, node *corev1.Node, place *cluster.Place, search Search) (*Answer, error) {
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
		// Finding out what is in use costs something. It can wait: what nothing in use does not
		// allow nothing does.
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
	if unusedFits != nil && unusedFits.Satisfiable && state != 0 && p.known(state) == nil && place.Separate && stays(unusedFits, &view, u) {
		known := &Answer{Answer: unusedFits.Answer} // others have the one of the other state
		p.remember(state, known)
		return known, nil
	}
	return p.answerIn(ctx, state, view, u, search, false)
}

// stays reports whether the answer for a node of which nothing is in use is that for what is: none of its devices
// is. What is in use besides rules out solutions and allows none that was not there, so that the first solution stays
// the first; and a search that does without a device looks at nothing which it would not have looked at
// with it. That holds for devices in use as a whole which draw on no counters: what a policy reads of a
// device does not depend on others of these.
func stays(a *Answer, view *cluster.NodeView, u *cluster.State) bool {
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

// idle is on whose behalf a place has the number of the state in which nothing is in use.
type idle struct{ *readSet }

// idleAnswer is the answer for a node of which nothing is in use, nil if there is no definite one or it is that of
// no other node.
func (p *Problem) idleAnswer(ctx context.Context, view cluster.NodeView, place *cluster.Place, search Search) (*Answer, error) {
	state, numbered := place.Number(idle{p.readSet}, nil)
	if !numbered {
		var odd bool
		if state, odd = p.readSet.state(ctx, &view, unused); odd {
			state = 0
		}
		if ctx.Err() == nil {
			place.SetNumber(idle{p.readSet}, nil, state)
		}
	}
	if state == 0 || p.known(state) == nil && !p.sound(ctx, &view) {
		return nil, nil
	}
	known, err := p.answerIn(ctx, state, view, unused, search, true)
	if ctx.Err() != nil {
		return nil, err
	}
	return known, nil // an error may go away with what is in use
}

// answerIn is the answer of a node in a state, 0 if it is none that another node can be in.
func (p *Problem) answerIn(ctx context.Context, state uint32, view cluster.NodeView, u eligibility.Usage, search Search, supposed bool) (*Answer, error) {
	if known := p.known(state); known != nil {
		return known, nil
	}
	p.memory.counters.Searches.Add(1)
	found, err := search(view, u, supposed)
	if found != nil && state != 0 && p.sound(ctx, &view) {
		p.remember(state, found)
	}
	return found, err
}

// sound reports whether devices that are not on the node make no difference. Selectors are evaluated
// on them, and may fail.
func (p *Problem) sound(ctx context.Context, view *cluster.NodeView) bool {
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

func (p *Problem) evaluates(ctx context.Context, of *shape.Shape) bool {
	for _, f := range p.Filters {
		if _, err := p.memory.evaluator.Judge(ctx, f, of); err != nil {
			return false
		}
	}
	return true
}

// Tally returns the numbers of the states of places as far as they are known, nil if such numbers
// are not for this problem.
func (p *Problem) Tally(places *cluster.Places, u *cluster.State) *cluster.Tally {
	if p.kind == nil {
		return nil
	}
	return places.Tally(p.owner, u)
}

// Known is the answer for the i-th place of a tally, nil if it is not known.
func (p *Problem) Known(tally *cluster.Tally, i int) *Answer { return p.known(tally.Number(i)) }
