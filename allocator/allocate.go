package allocator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

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
	view, err := s.GatherPools(node)
	if err != nil {
		return nil, err
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, fmt.Errorf("allocation on node %s was cancelled: %w", node.Name, cause)
	}
	var buffer [256]byte
	signature, ok := p.signature(ctx, buffer[:0], view, u)
	if !ok {
		outcome, _, err := p.solve(ctx, view, u)
		return outcome, err
	}
	if known := p.kind.answer(signature); known != nil {
		return p.recall(known, view, u), nil
	}
	outcome, found, err := p.solve(ctx, view, u)
	if found != nil {
		p.kind.remember(signature, found)
	}
	return outcome, err
}

// solve searches. The answer is nil if there is no definite one.
func (p *Problem) solve(ctx context.Context, view *pools.NodeView, u Usage) (Outcome, *answer, error) {
	before := p.allocator.selector.memo.Evaluations()
	in, err := newInstance(ctx, p, view, u)
	if err != nil {
		return nil, nil, err
	}
	search := newSearch(ctx, in, p.allocator.budget)
	ok, err := search.run()
	search.stats.CELEvaluations = p.allocator.selector.memo.Evaluations() - before
	asked := asked{problem: p, view: view, usage: u, solved: in, stats: search.stats}
	switch {
	case errors.Is(err, errBudget):
		return &Undecided{node: view.Node.Name, stats: search.stats}, nil, nil
	case err != nil:
		return nil, nil, err
	case !ok:
		return &Unsatisfiable{question{asked: asked}}, &answer{}, nil
	}
	assignment := &Assignment{question: question{asked: asked}, answer: search.answer()}
	if err := assignment.checkSelectors(); err != nil {
		return nil, nil, err
	}
	return assignment, assignment.answer, nil
}

// recall gives the answer of a node of the same signature.
func (p *Problem) recall(known *answer, view *pools.NodeView, u Usage) Outcome {
	asked := asked{problem: p, view: view, usage: u}
	if !known.satisfiable {
		return &Unsatisfiable{question{asked: asked}}
	}
	return &Assignment{question: question{asked: asked}, answer: known}
}

// NodeOutcome is the answer for one of several nodes.
type NodeOutcome struct {
	Node    *corev1.Node
	Outcome Outcome // nil if Err is set
	Err     error
}

// Evaluate asks Allocate for each node, each by itself, with the given number of
// goroutines (zero or less: one per CPU). The answers are in the order of the nodes.
// The error is the cause of the context's cancellation.
func (p *Problem) Evaluate(ctx context.Context, s *pools.Snapshot, u Usage, nodes []*corev1.Node, workers int) ([]NodeOutcome, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	answers := make([]NodeOutcome, len(nodes))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, len(nodes)) {
		group.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(nodes) && ctx.Err() == nil; i = next.Add(1) - 1 {
				answers[i].Node = nodes[i]
				answers[i].Outcome, answers[i].Err = p.Allocate(ctx, s, u, nodes[i])
			}
		})
	}
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, fmt.Errorf("evaluation of %d nodes was cancelled: %w", len(nodes), cause)
	}
	return answers, nil
}
