// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/pools"
)

// Repeat allocates the problem on one node again and again, each time with the devices of all previous
// Assignments in use. It yields each Outcome. Work that is the same for all rounds is done once.
//
// The sequence ends after an error, or after an Outcome that is not an Assignment. It may also end after an
// Assignment, where an allocation changes more than which devices are free: with shares, admin access,
// preferences and policies. The caller then continues with another State.
//
// The Allocator's Memory of nodes is neither used nor added to.
func (p *Problem) Repeat(ctx context.Context, state *pools.State, node *corev1.Node) iter.Seq2[Outcome, error] {
	return func(yield func(Outcome, error) bool) {
		u := (*cluster.State)(state)
		if err := p.fits(u); err != nil {
			yield(nil, err)
			return
		}
		if err := askable(ctx, node); err != nil {
			yield(nil, err)
			return
		}
		evaluated := p.allocator.evaluator.Evaluations()
		view, err := u.Snapshot().GatherPools(node)
		if err != nil {
			yield(nil, err)
			return
		}
		p.search(ctx, view, u, u, evaluated, func(found question, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			return yield(found.toOutcome(), nil)
		})
	}
}

// search yields the result of a search, then one for each round with the devices of all previous solutions in
// use, see Repeat. inUse may differ from the usage in the State. Evaluated is the evaluator's count of CEL
// evaluations before the question.
func (p *Problem) search(ctx context.Context, view cluster.NodeView, u *cluster.State, inUse eligibility.Usage, evaluated int64, yield func(question, error) bool) {
	in := p.allocator.instances.Get().(*model.Instance)
	defer func() {
		in.Release() // drop all references to the cluster
		p.allocator.instances.Put(in)
	}()
	err := in.Begin(ctx, p.modelQuestion(view, inUse))
	for again := false; err == nil; again = true {
		result := in.Solve(ctx)
		if again && result.End != solver.Found {
			u = u.With(in.Used()) // for an explanation
		}
		found, failed := p.conclude(ctx, in, result, u, evaluated)
		if !yield(found, failed) || found.Verdict() != Satisfiable || u.Source() != nil {
			return
		}
		if err = in.Complete(ctx); err != nil {
			break
		}
		if !in.Take(result) {
			return
		}
		evaluated = p.allocator.evaluator.Evaluations()
		err = askable(ctx, view.Node) // a search of a few steps does not poll the context
	}
	yield(question{}, err)
}
