// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"sync"
	"time"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
)

// Run says which cases to compare: those of Cases seeds from Seed on.
type Run struct {
	Comparer
	Cases   int
	Seed    uint64
	Profile clustergen.Profile
	Workers int
	// Progress, if set, is called after every case, and every second, with the report so far.
	Progress func(*Report)
}

type compared struct {
	c       *alloctest.Case
	verdict Verdict
	wrong   *WrongTurn // if the case is a turn with a disagreement
}

// Do compares all cases, or until the context is cancelled.
func (r Run) Do(ctx context.Context) *Report {
	seeds := make(chan uint64)
	results := make(chan compared)
	var workers sync.WaitGroup
	for range max(1, r.Workers) {
		workers.Go(func() {
			for seed := range seeds {
				c := clustergen.Generate(seed, r.Profile)
				results <- compared{c: c, verdict: r.Compare(ctx, c)}
			}
		})
	}
	go func() {
		feed(ctx, seeds, r.Seed, r.Cases)
		workers.Wait()
		close(results)
	}()
	return collect(ctx, results, r.Progress)
}

// collect reports on results as they come in.
func collect(ctx context.Context, results <-chan compared, progress func(*Report)) *Report {
	report := newReport()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case result, more := <-results:
			if !more {
				return report
			}
			if ctx.Err() != nil {
				// What was under way has been cut off.
				continue
			}
			report.add(result)
		}
		if progress != nil {
			progress(report)
		}
	}
}

func feed(ctx context.Context, seeds chan<- uint64, first uint64, count int) {
	defer close(seeds)
	for i := range count {
		select {
		case seeds <- first + uint64(i):
		case <-ctx.Done():
			return
		}
	}
}
