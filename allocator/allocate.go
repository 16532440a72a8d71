// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// Allocate looks for devices for all claims of the problem on one node, given what is in use. It returns
// exactly one of an Outcome and an error. The error is about the input (a selector that fails, all devices
// asked of an incomplete pool) or wraps the cause of the context's cancellation. Nothing is modified.
// State.Assume adds the allocated claims to a State.
func (p *Problem) Allocate(ctx context.Context, state *pools.State, node *corev1.Node) (Outcome, error) {
	u := (*cluster.State)(state)
	if err := p.fits(u); err != nil {
		return nil, err
	}
	found, err := p.ask(ctx, u, node, u.Snapshot().Place(node))
	if err != nil {
		return nil, err
	}
	return found.toOutcome(), nil
}

// General is the text of an error without the names of resource slices, pools and devices. So nodes that differ
// in these names only have the same text.
func General(err error) string {
	if named := (*pool.NamedError)(nil); errors.As(err, &named) {
		return named.General
	}
	return err.Error()
}

// Feasibility is the result of Feasible. The zero value is returned with an error.
type Feasibility struct{ found question }

// Verdict tells whether there are devices.
func (f Feasibility) Verdict() Verdict { return f.found.Verdict() }

// Stats counts the work of the search. All counts are zero if the answer was remembered from an equivalent
// node.
func (f Feasibility) Stats() Stats { return f.found.stats }

// Alike is Unsatisfiable.Alike of the Outcome that Allocate would return. It means nothing for other verdicts.
func (f Feasibility) Alike() Equivalence { return Equivalence{f.found.answer} }

// InvalidPools is Unsatisfiable.InvalidPools of the Outcome that Allocate would return. It is false for other
// verdicts.
func (f Feasibility) InvalidPools() bool {
	return f.Verdict() == NotSatisfiable && f.found.invalidPools()
}

// Results is Assignment.Results of the Outcome that Allocate would return, nil if the verdict is not
// Satisfiable. Each call builds them, with new IDs of shares.
func (f Feasibility) Results() []resourceapi.AllocationResult {
	if f.Verdict() != Satisfiable {
		return nil
	}
	return f.found.results()
}

// Feasible is Allocate without the Outcome, for the Filter of a scheduler. It allocates no memory if the answer
// is remembered from an equivalent node. The verdict is NoVerdict exactly if there is an error.
func (p *Problem) Feasible(ctx context.Context, state *pools.State, node *corev1.Node) (Feasibility, error) {
	u := (*cluster.State)(state)
	if err := p.fits(u); err != nil {
		return Feasibility{}, err
	}
	place := u.Snapshot().Place(node)
	found, err := p.ask(ctx, u, node, place)
	if err != nil {
		return Feasibility{}, err
	}
	found.view.Place = place // a Place that GatherPools made is not retained
	return Feasibility{found}, nil
}

// fits checks that the snapshot was built with the gates of this allocator. With other gates it would show
// devices that the allocator must not see, or hide some.
func (p *Problem) fits(u *cluster.State) error {
	if u == nil {
		return errors.New("state is nil")
	}
	if u.Snapshot() == nil {
		return errors.New("state is the zero value: want one of pools.NewState")
	}
	if built, wanted := u.Snapshot().Gates(), p.allocator.gates; built != wanted {
		return fmt.Errorf("the snapshot was built with %+v, the allocator's features need %+v", built, wanted)
	}
	return nil
}

// ask returns the remembered answer of an equivalent node, or else the result of a search. The place is that of
// the node in the snapshot, nil if there is none.
func (p *Problem) ask(ctx context.Context, u *cluster.State, node *corev1.Node, place *cluster.Place) (found question, err error) {
	if err := askable(ctx, node); err != nil {
		return found, err
	}
	evaluated := p.allocator.evaluator.Evaluations()
	known, err := p.recall.Ask(ctx, u, node, place, func(view cluster.NodeView, inUse eligibility.Usage, supposed bool) (*alike.Answer, error) {
		var answer *alike.Answer
		var err error
		p.search(ctx, view, u, inUse, evaluated, func(searched question, failed error) bool {
			if answer, err = searched.definite(), failed; !supposed {
				found = searched
			}
			return false
		})
		return answer, err
	})
	if err != nil {
		return question{}, err
	}
	if found.answer == nil {
		found = question{problem: p, state: u, view: cluster.NodeView{Node: node, Place: place}, answer: known}
	}
	return found, nil
}

func askable(ctx context.Context, node *corev1.Node) error {
	if node == nil {
		return errors.New("node is nil")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("allocation on node %s was cancelled: %w", node.Name, context.Cause(ctx))
	}
	return nil
}

func (p *Problem) modelQuestion(view cluster.NodeView, inUse eligibility.Usage) model.Question {
	a := p.allocator
	return model.Question{
		Compiled: p.recall.Compiled, Evaluator: a.evaluator, View: view, Usage: inUse, Before: a.before, Budget: a.budget, Few: a.few, Without: a.without,
	}
}

// conclude turns a result of the solver into an answer or an error. Evaluated is the evaluator's count of CEL
// evaluations before the search.
func (p *Problem) conclude(ctx context.Context, in *model.Instance, result model.Result, u *cluster.State, evaluated int64) (question, error) {
	switch result.End {
	case solver.Cancelled:
		return question{}, fmt.Errorf("allocation on node %s was cancelled: %w", in.View.Node.Name, context.Cause(ctx))
	case solver.Stopped:
		err := in.StopError(ctx, result.Stop)
		// StopError evaluates the device again, and the context may have been cancelled meanwhile.
		return question{}, cmp.Or(askable(ctx, in.View.Node), err)
	}
	found := question{problem: p, state: u, view: in.View, answer: &alike.Answer{Finding: in.Finding(result)}, stats: Stats{
		Steps: result.Stats.Steps, Decisions: result.Stats.Decisions, Checks: result.Stats.Checks, Backtracks: result.Stats.Backtracks,
		CELEvaluations: p.allocator.evaluator.Evaluations() - evaluated,
	}}
	if result.End == solver.Found {
		solution := found.solution()
		if err := solution.CheckSelectors(); err != nil {
			return question{}, err
		}
	}
	return found, nil
}
