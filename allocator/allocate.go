package allocator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/pools"
)

// Usage tells what is in use of a pool. *pools.Usage implements it, as the view of a
// pools.Ledger. Implementations must be safe for concurrent use and answer the same
// for the same pool.
type Usage interface {
	// Pool returns what is in use of a pool, never nil.
	Pool(p *pools.Pool) *pools.PoolUsage
}

// Allocate looks for devices for all claims of the problem on one node, given what
// is in use. It returns exactly one of an Outcome and an error. The error is about the
// input (a selector that fails, all devices asked of an incomplete pool) or wraps the
// cause of the context's cancellation. Nothing is modified: to take what an Assignment
// gives, add the allocated claims to a pools.Ledger.
func (p *Problem) Allocate(ctx context.Context, s *pools.Snapshot, u Usage, node *corev1.Node) (Outcome, error) {
	place := s.Place(node)
	known, outcome, err := p.ask(ctx, s, u, node, place)
	if known == nil {
		return outcome, err
	}
	if place != nil {
		return p.recall(known, place.NodeView(node), u), nil
	}
	view, err := s.GatherPools(node)
	if err != nil {
		return nil, err
	}
	return p.recall(known, view, u), nil
}

// Feasible is Allocate for those who only want to know whether there are devices, as the
// filter of a scheduler. For a node that is like another one it allocates no memory. The
// verdict is NoVerdict exactly if there is an error.
func (p *Problem) Feasible(ctx context.Context, s *pools.Snapshot, u Usage, node *corev1.Node) (Feasibility, error) {
	known, outcome, err := p.ask(ctx, s, u, node, s.Place(node))
	if known != nil {
		return Feasibility{verdict: known.verdict(), answer: known}, nil
	}
	return feasibilityOf(outcome), err
}

// ask returns an answer that is known already, or else a new outcome, or an error. The place
// is that of the node, if it has one.
func (p *Problem) ask(ctx context.Context, s *pools.Snapshot, u Usage, node *corev1.Node, place *pools.Place) (*answer, Outcome, error) {
	if node == nil {
		return nil, nil, errors.New("node is nil")
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("allocation on node %s was cancelled: %w", node.Name, context.Cause(ctx))
	}
	if place == nil || p.kind.lens == nil || !p.repeats {
		known, outcome, err := p.compare(ctx, s, u, node)
		if outcome != nil {
			known = nil
		}
		return known, outcome, err
	}
	return p.askPlace(ctx, s, u, node, place)
}

// askPlace is ask for a place in a state which the problem's lens can make out.
func (p *Problem) askPlace(ctx context.Context, s *pools.Snapshot, u Usage, node *corev1.Node, place *pools.Place) (*answer, Outcome, error) {
	if _, kept := u.(*pools.Usage); !kept {
		// Finding out what is in use costs something. It can wait: what nothing in use
		// does not allow nothing does.
		known, err := p.idleAnswer(ctx, s, node, place)
		if err != nil || known != nil && !known.satisfiable && !known.literal {
			return known, nil, err
		}
		if lazy, ok := u.(*pools.LazyUsage); ok && known != nil && known.satisfiable {
			if known = p.inquire(ctx, s, lazy, node, place.Views(), known); known != nil {
				return known, nil, nil
			}
		}
	}
	state := p.state(place, u)
	if state != 0 {
		if known := p.kind.ofState.get(state); known != nil {
			return known, nil, nil
		}
	}
	known, outcome, err := p.compare(ctx, s, u, node)
	if known != nil && state != 0 {
		p.kind.ofState.set(state, known)
	}
	if outcome != nil {
		known = nil
	}
	return known, outcome, err
}

// idleAnswer is the answer for a node of which nothing is in use, nil if there is no
// definite one.
func (p *Problem) idleAnswer(ctx context.Context, s *pools.Snapshot, node *corev1.Node, place *pools.Place) (*answer, error) {
	state := p.idleState(place)
	if state == 0 {
		return nil, nil
	}
	if known := p.kind.ofState.get(state); known != nil {
		return known, nil
	}
	known, _, err := p.compare(ctx, s, idleUsage{}, node)
	if ctx.Err() != nil {
		return nil, err
	}
	if known != nil {
		p.kind.ofState.set(state, known)
	}
	return known, nil // an error may go away with what is in use
}

// compare looks for a node of the same signature, and searches if there is none. There may
// be an outcome with the answer.
func (p *Problem) compare(ctx context.Context, s *pools.Snapshot, u Usage, node *corev1.Node) (*answer, Outcome, error) {
	view, err := s.GatherPools(node)
	if err != nil {
		return nil, nil, err
	}
	// Devices are judged for the signature, ahead of the search.
	evaluated := p.allocator.selector.memo.Evaluations()
	var buffer [signatureSize]byte
	signature := p.signature(ctx, buffer[:0], &view, u)
	if signature != nil {
		if known := p.kind.get(signature); known != nil {
			return known, nil, nil
		}
	}
	outcome, found, err := p.solve(ctx, view, u, evaluated)
	if signature == nil {
		return nil, outcome, err
	}
	if found != nil {
		p.kind.add(signature, found)
	}
	return found, outcome, err
}

// solve searches. The answer is nil if there is no definite one. Evaluations are counted
// from a number of them on.
func (p *Problem) solve(ctx context.Context, view pools.NodeView, u Usage, evaluated int64) (Outcome, *answer, error) {
	desk := p.allocator.desk()
	defer p.allocator.leave(desk)
	in, search := &desk.instance, &desk.search
	if err := in.build(ctx, p, view, u); err != nil {
		return nil, nil, err
	}
	search.begin(ctx, in, in.room, p.allocator.budget)
	ok, err := search.run()
	search.stats.CELEvaluations = p.allocator.selector.memo.Evaluations() - evaluated
	asked := asked{problem: p, view: view, usage: u, stats: search.stats}
	switch {
	case errors.Is(err, errBudget):
		return &Undecided{node: view.Node.Name, stats: search.stats}, nil, nil
	case err != nil:
		return nil, nil, err
	case !ok:
		none := &answer{literal: in.literal}
		return &Unsatisfiable{question: question{asked: asked}, answer: none}, none, nil
	}
	assignment := &Assignment{question: question{asked: asked}, answer: search.answer()}
	if err := assignment.checkSelectors(); err != nil {
		return nil, nil, err
	}
	return assignment, assignment.answer, nil
}

// recall gives the answer of a node of the same signature.
func (p *Problem) recall(known *answer, view pools.NodeView, u Usage) Outcome {
	asked := asked{problem: p, view: view, usage: u}
	if !known.satisfiable {
		return &Unsatisfiable{question: question{asked: asked}, answer: known}
	}
	return &Assignment{question: question{asked: asked}, answer: known}
}
