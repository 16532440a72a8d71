package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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

// Allocate looks for devices for all claims of the problem on one node, given what
// is in use. It returns exactly one of an Outcome and an error. The error is about the
// input (a selector that fails, all devices asked of an incomplete pool) or wraps the
// cause of the context's cancellation. Nothing is modified: to take what an Assignment
// gives, have State.Assume add the allocated claims.
func (p *Problem) Allocate(ctx context.Context, state *pools.State, node *corev1.Node) (Outcome, error) {
	u := (*cluster.State)(state)
	if err := p.fits(u); err != nil {
		return nil, err
	}
	place := u.Snapshot().Place(node)
	known, outcome, err := p.ask(ctx, u, node, place)
	if known == nil {
		return outcome, err
	}
	if place != nil {
		return p.recall(known, cluster.NodeView{Node: node, Place: place}, u), nil
	}
	view, err := u.Snapshot().GatherPools(node)
	if err != nil {
		return nil, err
	}
	return p.recall(known, view, u), nil
}

// Feasibility is what Feasible finds out.
type Feasibility struct {
	verdict Verdict
	answer  *alike.Answer
	stats   Stats
	problem *Problem
	state   *cluster.State
	node    *corev1.Node
	place   *cluster.Place
}

// Verdict tells whether there are devices.
func (f Feasibility) Verdict() Verdict { return f.verdict }

// Stats tells what the answer cost. One that was known from another node cost nothing.
func (f Feasibility) Stats() Stats { return f.stats }

// Alike is that of the Unsatisfiable which Allocate would return. It is of no use for other
// verdicts.
func (f Feasibility) Alike() any { return f.answer }

// Results is Assignment.Results of what Allocate would return, nil if the verdict is not Satisfiable. They
// are built at each call, with new IDs of shares.
func (f Feasibility) Results() []resourceapi.AllocationResult {
	if f.verdict != Satisfiable {
		return nil
	}
	return f.problem.solution(f.view(), f.answer).Results()
}

// InvalidPools is Unsatisfiable.InvalidPools of what Allocate would return.
func (f Feasibility) InvalidPools() bool {
	return f.verdict == NotSatisfiable && invalidPools(f.view())
}

func (f Feasibility) view() cluster.NodeView {
	if f.place != nil {
		return cluster.NodeView{Node: f.node, Place: f.place}
	}
	view, err := f.state.Snapshot().GatherPools(f.node)
	if err != nil {
		panic("node " + f.node.Name + " has an answer, but now: " + err.Error()) // the snapshot is immutable
	}
	return view
}

// Feasible is Allocate for those who only want to know whether there are devices, as the
// filter of a scheduler. For a node that is like another one it allocates no memory. The
// verdict is NoVerdict exactly if there is an error.
func (p *Problem) Feasible(ctx context.Context, state *pools.State, node *corev1.Node) (Feasibility, error) {
	u := (*cluster.State)(state)
	if err := p.fits(u); err != nil {
		return Feasibility{}, err
	}
	f := Feasibility{problem: p, state: u, node: node, place: u.Snapshot().Place(node)}
	known, outcome, err := p.ask(ctx, u, node, f.place)
	if known != nil {
		f.verdict, f.answer = verdictOf(known), known
		return f, nil
	}
	switch found := outcome.(type) {
	case nil:
		return Feasibility{}, err
	case *Assignment:
		f.answer = found.answer
	case *Unsatisfiable:
		f.answer = found.answer
	}
	f.verdict, f.stats = outcome.Verdict(), outcome.Stats()
	return f, nil
}

func verdictOf(known *alike.Answer) Verdict {
	if known.Satisfiable {
		return Satisfiable
	}
	return NotSatisfiable
}

// fits checks that the state can be asked about: another choice of features would give
// devices that this allocator must not look at, or hide some.
func (p *Problem) fits(u *cluster.State) error {
	if u == nil {
		return errors.New("state is nil")
	}
	if built, wanted := u.Snapshot().Gates(), pool.Gates(Features(p.allocator.evaluator.Features()).PoolGates()); built != wanted {
		return fmt.Errorf("the snapshot was built with %+v, the allocator's features need %+v", built, wanted)
	}
	return nil
}

// ask returns an answer that is known already, or else a new outcome, or an error. The place
// is that of the node, if it has one.
func (p *Problem) ask(ctx context.Context, u *cluster.State, node *corev1.Node, place *cluster.Place) (*alike.Answer, Outcome, error) {
	if err := askable(ctx, node); err != nil {
		return nil, nil, err
	}
	var outcome Outcome
	evaluated := p.allocator.evaluator.Evaluations()
	known, err := p.compiled.Ask(ctx, u, node, place, func(view cluster.NodeView, inUse eligibility.Usage, supposed bool) (*alike.Answer, error) {
		found, answer, err := p.solve(ctx, view, u, inUse, evaluated)
		if !supposed {
			outcome = found
		}
		return answer, err
	})
	if outcome != nil || err != nil {
		known = nil
	}
	return known, outcome, err
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

func (p *Problem) question(view cluster.NodeView, inUse eligibility.Usage) model.Question {
	a := p.allocator
	return model.Question{
		Problem: p.compiled.Problem, Evaluator: a.evaluator, View: view, Usage: inUse, Before: a.before, Budget: a.budget,
	}
}

// solve searches, given what is in use, which may be something else than in the state that
// was asked about. Evaluated is how many expressions had been evaluated before the question. The answer is nil if there is no definite one.
func (p *Problem) solve(ctx context.Context, view cluster.NodeView, u *cluster.State, inUse eligibility.Usage, evaluated int64) (Outcome, *alike.Answer, error) {
	in := p.allocator.instances.Get().(*model.Instance)
	defer func() {
		in.Release() // it keeps nothing of the cluster
		p.allocator.instances.Put(in)
	}()
	if err := in.Begin(ctx, p.question(view, inUse)); err != nil {
		return nil, nil, err
	}
	result := in.Solve(ctx)
	return p.outcome(ctx, in, result, u, evaluated)
}

// outcome is what a result means. Evaluated is how many expressions had been evaluated before it was asked for.
func (p *Problem) outcome(ctx context.Context, in *model.Instance, result model.Result, u *cluster.State, evaluated int64) (Outcome, *alike.Answer, error) {
	view := in.View
	asked := question{problem: p, view: view, state: u, literal: in.Literal, stats: Stats{
		Steps: result.Stats.Steps, Decisions: result.Stats.Decisions, Checks: result.Stats.Checks, Backtracks: result.Stats.Backtracks,
		CELEvaluations: p.allocator.evaluator.Evaluations() - evaluated,
	}}
	switch result.Verdict {
	case solver.Spent:
		return &Undecided{asked}, nil, nil
	case solver.Cancelled:
		return nil, nil, fmt.Errorf("allocation on node %s was cancelled: %w", view.Node.Name, context.Cause(ctx))
	case solver.Stopped:
		err := in.StopError(ctx, result.Stop)
		// Looking at the device again may have been interrupted.
		return nil, nil, cmp.Or(askable(ctx, view.Node), err)
	}
	answer := &alike.Answer{Answer: in.Answer(result)}
	if result.Verdict == solver.None {
		return &Unsatisfiable{question: asked, answer: answer}, answer, nil
	}
	assignment := &Assignment{question: asked, answer: answer}
	if err := p.solution(view, answer).CheckSelectors(); err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(answer.Missed, func(m model.Miss) bool { return m.Undecided }) {
		return assignment, nil, nil // a search that went another way might have had it
	}
	return assignment, answer, nil
}

// recall gives the answer of a node of the same signature.
func (p *Problem) recall(known *alike.Answer, view cluster.NodeView, u *cluster.State) Outcome {
	asked := question{problem: p, view: view, state: u, literal: known.Literal}
	if !known.Satisfiable {
		return &Unsatisfiable{question: asked, answer: known}
	}
	return &Assignment{question: asked, answer: known}
}
