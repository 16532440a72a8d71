// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
)

// Sequences compares sequences of questions about a cluster that changes: what one
// question allocates is in use in the next.
type Sequences struct {
	// Ours returns allocators to ask, by name. It is called anew for each sequence: they
	// may keep what they know of the turns before.
	Ours func() map[string]alloctest.Allocator
	// Peer is asked once a turn, and knows nothing of other turns.
	Peer                alloctest.Allocator
	PeerLimit, OurLimit time.Duration
	PeerSteps           int64 // as for a Comparer

	Cases   int // how many turns to compare altogether
	Turns   int // of one sequence
	Seed    uint64
	Profile clustergen.Profile
	Workers int
	// Progress, if set, is called after every turn, and every second, with the report so far.
	Progress func(*Report)
}

// WrongTurn is a sequence of which the last turn has a disagreement.
type WrongTurn struct {
	Turns   []alloctest.Turn
	Answers []alloctest.Outcome // the peer's, one for each turn
	Verdict Verdict
	// By names the allocator of ours that disagrees.
	By string
}

// Do compares all sequences, or until the context is cancelled.
func (q *Sequences) Do(ctx context.Context) *Report {
	seeds := make(chan uint64)
	results := make(chan compared)
	var workers sync.WaitGroup
	for range max(1, q.Workers) {
		workers.Go(func() {
			for seed := range seeds {
				q.sequence(ctx, seed, results)
			}
		})
	}
	go func() {
		feed(ctx, seeds, q.Seed, (q.Cases+q.Turns-1)/q.Turns)
		workers.Wait()
		close(results)
	}()
	return collect(ctx, results, q.Progress)
}

// sequence draws turns and compares each, up to the first disagreement.
func (q *Sequences) sequence(ctx context.Context, seed uint64, results chan<- compared) {
	g := clustergen.NewSequence(seed, q.Profile)
	p := q.play()
	turn := g.First()
	for range q.Turns {
		c, verdict := p.turn(ctx, turn)
		result := compared{c: c, verdict: verdict}
		if verdict.Disagreement != "" {
			result.wrong = &WrongTurn{p.turns, p.answers, verdict, p.by}
		}
		results <- result
		if verdict.Disagreement != "" || ctx.Err() != nil {
			return
		}
		turn = g.Next(p.last)
	}
}

// play is a sequence under way.
type play struct {
	*Sequences
	ours    map[string]alloctest.Allocator
	last    *alloctest.Case // with what the last turn allocated
	turns   []alloctest.Turn
	answers []alloctest.Outcome
	by      string
}

func (q *Sequences) play() *play {
	return &play{Sequences: q, ours: q.Ours(), last: &alloctest.Case{}}
}

// turn asks all allocators. The verdict is that of the first who disagrees.
func (p *play) turn(ctx context.Context, t alloctest.Turn) (*alloctest.Case, Verdict) {
	c := t.After(p.last)
	answer := ask(ctx, p.Peer, c, p.PeerLimit, p.PeerSteps)
	p.turns, p.answers = append(p.turns, t), append(p.answers, answer)
	var verdict Verdict
	for name, ours := range p.ours {
		one := Comparer{Ours: ours, Peer: func(context.Context, *alloctest.Case) alloctest.Outcome { return answer },
			PeerLimit: p.PeerLimit, OurLimit: p.OurLimit}
		if verdict = one.Compare(ctx, c); verdict.Disagreement != "" {
			p.by = name
			verdict.Disagreement = name + ": " + verdict.Disagreement
			break
		}
	}
	var results []resourceapi.AllocationResult
	if !t.DryRun {
		results = answer.Results
	}
	p.last = c.WithAllocated(results)
	return c, verdict
}

// Reduce makes a sequence as small as it can be with any disagreement left.
func (q *Sequences) Reduce(ctx context.Context, w *WrongTurn) *WrongTurn {
	ctx, cancel := context.WithTimeout(ctx, reduceLimit)
	defer cancel()
	smallest := w
	reduceTurns(w.Turns, func(turns []alloctest.Turn) (used int, fails bool) {
		replayed := q.replay(ctx, turns)
		if ctx.Err() != nil || replayed == nil {
			return 0, false
		}
		smallest = replayed
		return len(replayed.Turns), true
	})
	return smallest
}

// replay plays turns up to the first disagreement. It is nil if there is none, or if a turn
// before asks about a node that has been left out, which no scenario can.
func (q *Sequences) replay(ctx context.Context, turns []alloctest.Turn) *WrongTurn {
	p := q.play()
	for _, turn := range turns {
		nodes := turn.After(p.last).Nodes
		if !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == turn.Case.Node }) {
			return nil
		}
		if _, verdict := p.turn(ctx, turn); verdict.Disagreement != "" {
			return &WrongTurn{p.turns, p.answers, verdict, p.by}
		}
	}
	return nil
}

// Scenario is the text of a scenario file with the peer's answers, preceded by the
// disagreement as a comment.
func (w *WrongTurn) Scenario() (string, error) {
	text, err := alloctest.FormatSequence(w.Turns, w.Answers)
	if err != nil {
		return "", err
	}
	return comment(w.Verdict.Disagreement) + "\n" + text, nil
}
