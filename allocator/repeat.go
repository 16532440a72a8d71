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

// Repeat yields what Allocate says, and then what it would say with the devices of each Assignment in use, for as long as
// the problem can be allocated. What is the same for all is found out once. An error, or an Outcome that is no
// Assignment, is the last. So may be an Assignment: where more may change than which devices are free, as with shares,
// admin access, preferences and policies, what comes next has to be asked for with another State.
//
// What the Allocator remembers of nodes is neither used nor added to.
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
			return yield(found.made(), nil)
		})
	}
}

// search yields what is found, given what is in use, which may be something else than in the state that was
// asked about. Then it yields what is found with the devices of each solution in use, see Repeat. Evaluated is how many
// expressions had been evaluated before the question.
func (p *Problem) search(ctx context.Context, view cluster.NodeView, u *cluster.State, inUse eligibility.Usage, evaluated int64, yield func(question, error) bool) {
	in := p.allocator.instances.Get().(*model.Instance)
	defer func() {
		in.Release() // it keeps nothing of the cluster
		p.allocator.instances.Put(in)
	}()
	err := in.Begin(ctx, p.inquiry(view, inUse))
	for again := false; err == nil; again = true {
		result := in.Solve(ctx)
		if again && result.End != solver.Found {
			u = u.With(in.Used()) // which an explanation asks for
		}
		found, failed := p.conclude(ctx, in, result, u, evaluated)
		if !yield(found, failed) || found.Verdict() != Satisfiable || u.Source() != nil || !in.Take(result) {
			return
		}
		evaluated = p.allocator.evaluator.Evaluations()
		err = askable(ctx, view.Node) // a search of a few steps does not look whether it was cancelled
	}
	yield(question{}, err)
}
