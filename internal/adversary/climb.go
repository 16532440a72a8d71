package adversary

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
	"github.com/dray-project/dray/internal/differential"
	"github.com/dray-project/dray/internal/peer"
)

// Climb looks for bad cases, round by round.
type Climb struct {
	Seed uint64
	// Rounds is how many to go, Mutations how many to try in each.
	Rounds, Mutations int
	Meter             *peer.Meter
	Worst             *Worst
	// Progress, if set, is called after each round.
	Progress func(round int, reached Found)
}

// Found is a case and what it takes.
type Found struct {
	Case *alloctest.Case
	Measurement
}

// Run goes on until its rounds are over or the context is cancelled. The error is that of
// writing down what was found.
func (k *Climb) Run(ctx context.Context) error {
	for round := range k.Rounds {
		r := rand.New(rand.NewPCG(k.Seed, uint64(round)))
		found := k.anneal(ctx, r, k.start(ctx, r, round))
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the context is how a long run ends
		}
		if k.Worst.Wants(found) {
			found = k.reduce(ctx, found)
			if err := k.Worst.Add(found); err != nil {
				return err
			}
		}
		if k.Progress != nil {
			k.Progress(round, found)
		}
	}
	return nil
}

// start is a generated case or, every third time, one of the worst so far.
func (k *Climb) start(ctx context.Context, r *rand.Rand, round int) Found {
	if known := k.Worst.All(); round%3 == 2 && len(known) > 0 {
		return known[r.IntN(len(known))]
	}
	for {
		c := clustergen.Generate(r.Uint64(), clustergen.Hard)
		m, err := Measure(ctx, k.Meter, c)
		if err == nil && m.Class != differential.Failed && withinLimits(c) || ctx.Err() != nil {
			return Found{c, m}
		}
	}
}

const (
	// warm and cold are how much easier, as a factor, a case may get by one change for
	// the change to be kept one time in e, at the beginning and at the end.
	warm, cold = 2, 1.05
)

// anneal changes a case again and again, and returns the worst that it came across.
func (k *Climb) anneal(ctx context.Context, r *rand.Rand, current Found) Found {
	worst := current
	for i := range k.Mutations {
		changed := mutate(r, current.Case)
		if !withinLimits(changed) {
			continue
		}
		m, err := Measure(ctx, k.Meter, changed)
		if ctx.Err() != nil {
			break
		}
		if err != nil || m.Class == differential.Failed {
			continue
		}
		heat := math.Log(warm) + (math.Log(cold)-math.Log(warm))*float64(i)/float64(k.Mutations)
		if harder := math.Log(float64(m.Steps)) - math.Log(float64(current.Steps)); harder < -heat*r.ExpFloat64() {
			continue
		}
		current = Found{changed, m}
		if current.Steps > worst.Steps {
			worst = current
		}
		if current.Undecided {
			break // as bad as can be told
		}
	}
	worst.Case.Name = fmt.Sprintf("adversary-%d-%d", k.Seed, r.Uint32())
	return worst
}

const (
	// kept is the share of its steps that a case keeps when it is made smaller.
	kept = 0.9
	// reductions bounds how often making it smaller is tried.
	reductions = 400
)

func (k *Climb) reduce(ctx context.Context, found Found) Found {
	tried := 0
	smaller := differential.Reduce(found.Case, func(c *alloctest.Case) bool {
		if tried++; tried > reductions {
			return false
		}
		m, err := Measure(ctx, k.Meter, c)
		return err == nil && withinLimits(c) && m.Class == found.Class && float64(m.Steps) >= kept*float64(found.Steps)
	})
	m, err := Measure(ctx, k.Meter, smaller)
	if err != nil || ctx.Err() != nil {
		return found
	}
	return Found{smaller, m}
}
