// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/pools"
)

// Evaluation is the answer for each of several nodes.
type Evaluation struct {
	problem *Problem
	state   *cluster.State
	nodes   []*corev1.Node
	// answers are by node, nil where there is an error.
	answers []*alike.Answer
	// searched is by node, nil for a node whose answer was remembered without an error. The list is made by the
	// first search.
	searched func() []*nodeSearch
}

// nodeSearch is the cost of the search for one node, or its error.
type nodeSearch struct {
	stats Stats
	err   error
}

// Len is the number of nodes.
func (e *Evaluation) Len() int { return len(e.nodes) }

// Node returns the i-th node, in the order in which they were given.
func (e *Evaluation) Node(i int) *corev1.Node { return e.nodes[i] }

// Verdict tells whether there are devices on the i-th node. It is NoVerdict if Outcome returns an error.
func (e *Evaluation) Verdict(i int) Verdict { return (&question{answer: e.answers[i]}).Verdict() }

// Outcome returns what Allocate returns for the i-th node. Each call builds it.
func (e *Evaluation) Outcome(i int) (Outcome, error) {
	var stats Stats
	if of := e.searched()[i]; of != nil {
		if of.err != nil {
			return nil, of.err
		}
		stats = of.stats
	}
	node := e.nodes[i]
	found := question{
		problem: e.problem, state: e.state, view: cluster.NodeView{Node: node, Place: e.state.Snapshot().Place(node)},
		answer: e.answers[i], stats: stats,
	}
	return found.toOutcome(), nil
}

// batchSize is how many nodes a goroutine takes from the list at a time. It is small enough for all goroutines to
// end together, and large enough to keep contention on the counter low.
func batchSize(nodes, workers int) int { return max(16, min(nodes/(8*workers), 512)) }

// soloSearches is how many nodes the first goroutine searches before others are started. If all answers are
// remembered, none is started.
const soloSearches = 8

// Evaluate answers as Allocate for each node by itself, with up to the given number of goroutines (zero or
// less: one per CPU). The list of nodes is kept and must not be modified. The error says that the state cannot
// be used with this allocator, or is the cause of the context's cancellation.
func (p *Problem) Evaluate(ctx context.Context, state *pools.State, nodes []*corev1.Node, workers int) (*Evaluation, error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	u := (*cluster.State)(state)
	if err := p.fits(u); err != nil {
		return nil, err
	}
	e := &Evaluation{problem: p, state: u, nodes: nodes, answers: make([]*alike.Answer, len(nodes))}
	e.searched = sync.OnceValue(func() []*nodeSearch { return make([]*nodeSearch, len(nodes)) })
	places := u.Snapshot().Places(nodes)
	tally := p.recall.Tally(places, u)
	step := batchSize(len(nodes), workers)
	var next atomic.Int64
	work := func(searched func()) {
		for ctx.Err() == nil {
			end := int(next.Add(int64(step)))
			if end-step >= len(nodes) {
				return
			}
			for i := end - step; i < min(end, len(nodes)); i++ {
				if e.answers[i] = p.recall.Known(tally, i); e.answers[i] == nil {
					e.evaluate(ctx, places.At(i), tally, i)
					searched()
				}
			}
		}
	}
	var group sync.WaitGroup
	alone := 0
	work(func() {
		if alone++; alone == soloSearches {
			for range min(workers-1, len(nodes)/step) {
				group.Go(func() { work(func() {}) })
			}
		}
	})
	group.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("evaluation of %d nodes was cancelled: %w", len(nodes), context.Cause(ctx))
	}
	tally.Keep()
	return e, nil
}

func (e *Evaluation) evaluate(ctx context.Context, place *cluster.Place, tally *cluster.Tally, i int) {
	found, err := e.problem.ask(ctx, e.state, e.nodes[i], place)
	if e.answers[i] = found.answer; err != nil || found.stats != (Stats{}) {
		e.searched()[i] = &nodeSearch{found.stats, err}
	}
	if err == nil && found.answer.State != 0 {
		tally.Set(i, found.answer.State)
	}
}
