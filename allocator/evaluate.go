package allocator

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/pools"
)

// Evaluation is the answer for each of several nodes.
type Evaluation struct {
	problem  *Problem
	snapshot *pools.Snapshot
	usage    Usage
	nodes    []*corev1.Node
	answers  []nodeAnswer
}

// nodeAnswer is one of known, outcome and err.
type nodeAnswer struct {
	known   *answer
	outcome Outcome
	err     error
}

// Len is the number of nodes.
func (e *Evaluation) Len() int { return len(e.nodes) }

// Node returns the i-th node, in the order in which they were given.
func (e *Evaluation) Node(i int) *corev1.Node { return e.nodes[i] }

// Verdict tells whether there are devices on the i-th node. It is NoVerdict if Outcome
// returns an error.
func (e *Evaluation) Verdict(i int) Verdict {
	if known := e.answers[i].known; known != nil {
		return known.verdict()
	}
	return verdictOf(e.answers[i].outcome)
}

// Outcome returns what Allocate returns for the i-th node. Where a node is like another
// one, it is made when it is asked for.
func (e *Evaluation) Outcome(i int) (Outcome, error) {
	if known := e.answers[i].known; known != nil {
		view, err := e.snapshot.GatherPools(e.nodes[i])
		if err != nil {
			return nil, err
		}
		return e.problem.recall(known, view, e.usage), nil
	}
	return e.answers[i].outcome, e.answers[i].err
}

// stretch is how many nodes a goroutine takes at a time.
const stretch = 16

// Evaluate asks Allocate for each node, each by itself, with the given number of
// goroutines (zero or less: one per CPU). The list of nodes is kept and must not be
// modified. The error is the cause of the context's cancellation.
func (p *Problem) Evaluate(ctx context.Context, s *pools.Snapshot, u Usage, nodes []*corev1.Node, workers int) (*Evaluation, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	e := &Evaluation{problem: p, snapshot: s, usage: u, nodes: nodes, answers: make([]nodeAnswer, len(nodes))}
	places := s.Places(nodes)
	var next atomic.Int64
	work := func() {
		for from := next.Add(stretch) - stretch; int(from) < len(nodes) && ctx.Err() == nil; from = next.Add(stretch) - stretch {
			e.evaluate(ctx, places, int(from), min(int(from)+stretch, len(nodes)))
		}
	}
	var group sync.WaitGroup
	for range min(workers-1, len(nodes)/stretch) {
		group.Go(work)
	}
	work()
	group.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("evaluation of %d nodes was cancelled: %w", len(nodes), context.Cause(ctx))
	}
	return e, nil
}

func (e *Evaluation) evaluate(ctx context.Context, places []*pools.Place, from, to int) {
	for i := from; i < to; i++ {
		a := &e.answers[i]
		a.known, a.outcome, a.err = e.problem.ask(ctx, e.snapshot, e.usage, e.nodes[i], places[i])
	}
}
