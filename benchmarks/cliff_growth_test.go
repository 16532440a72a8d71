// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"cmp"
	"math"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

const (
	// start is how many steps are too few to tell.
	start = 60
	// farthest is how many steps any of them may take.
	farthest = 4000
)

// Steps grow no faster than a small power of K, and no cliff is far from its ground.
func TestCliffsGrowByAPower(t *testing.T) {
	for _, cliff := range Cliffs() {
		t.Run(cliff.Name, func(t *testing.T) {
			steps := make([]float64, len(cliff.Sizes))
			for i, k := range cliff.Sizes {
				steps[i] = decideCliff(t, &cliff, k)
				if i == 0 || steps[i] > farthest {
					continue
				}
				growth := math.Pow(float64(k)/float64(cliff.Sizes[i-1]), cmp.Or(cliff.Steepest, DefaultSteepest))
				if most := growth * max(start, steps[i-1]); steps[i] > most {
					t.Errorf("K=%d: %v steps after %v at K=%d; at most %.0f are expected", k, steps[i], steps[i-1], cliff.Sizes[i-1], most)
				}
			}
			t.Logf("steps %v at K=%v", steps, cliff.Sizes)
			if last := steps[len(steps)-1]; last > farthest {
				t.Errorf("%v steps at the end, more than %d", last, farthest)
			}
		})
	}
}

// decideCliff checks the answer and returns the steps it took.
func decideCliff(t *testing.T, cliff *Cliff, k int) float64 {
	t.Helper()
	c := cliff.Build(k)
	m, err := new(peer.Meter).Measure(t.Context(), c)
	if err != nil || m.Err != nil {
		t.Fatal(err, m.Err)
	}
	assignment, fits := m.Outcome.(*allocator.Assignment)
	if fits != cliff.Fits {
		t.Fatalf("K=%d: fits is %v (%T after %d steps)", k, fits, m.Outcome, m.Outcome.Stats().Steps)
	}
	if fits {
		verifyCliff(t, c, assignment)
	}
	return float64(m.Outcome.Stats().Steps)
}

func verifyCliff(t *testing.T, c *alloctest.Case, a *allocator.Assignment) {
	t.Helper()
	if err := oracle.Verify(c, a.Results()); err != nil {
		t.Errorf("%s: %v", c.Name, err)
	}
}
