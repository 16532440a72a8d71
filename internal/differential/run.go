package differential

import (
	"context"
	"sync"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
)

// Run says which cases to compare: those of Cases seeds from Seed on.
type Run struct {
	Comparer
	Cases   int
	Seed    uint64
	Profile clustergen.Profile
	Workers int
	// Progress, if set, is called after every case with the report so far.
	Progress func(*Report)
}

type compared struct {
	c       *alloctest.Case
	verdict Verdict
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
				results <- compared{c, r.Compare(ctx, c)}
			}
		})
	}
	go func() {
		r.feed(ctx, seeds)
		workers.Wait()
		close(results)
	}()
	report := newReport()
	for result := range results {
		if ctx.Err() != nil {
			// What was under way has been cut off.
			continue
		}
		report.add(result.c, result.verdict)
		if r.Progress != nil {
			r.Progress(report)
		}
	}
	return report
}

func (r Run) feed(ctx context.Context, seeds chan<- uint64) {
	defer close(seeds)
	for i := range r.Cases {
		select {
		case seeds <- r.Seed + uint64(i):
		case <-ctx.Done():
			return
		}
	}
}
