// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"math/rand/v2"
	"testing"

	"github.com/dray-project/dray/simulate/mix"
)

// However early a search is given up, no plan costs less than its bound.
func TestFindBoundHolds(t *testing.T) {
	bounds := 0
	for seed := range uint64(60) {
		l := newLab(t)
		state, q := l.generate(rand.New(rand.NewPCG(seed, 30)), features{nics: true, cpu: true, existing: true, limits: seed%2 == 0})
		best, err := mix.Find(t.Context(), state, q)
		if err != nil || !best.Exact() {
			t.Fatalf("seed %d: exact %t, %v", seed, best.Exact(), err)
		}
		for steps := int64(16); steps < 200_000; steps += 1 + steps/3 {
			q.Steps = steps
			plan, err := mix.Find(t.Context(), state, q)
			if err != nil || plan.Exact() && (plan.Cost != best.Cost || len(plan.Left) != len(best.Left)) || len(plan.Left) == len(best.Left) && plan.Bound > best.Cost+1e-9 {
				t.Fatalf("seed %d, %d steps: cost %v, bound %v, exact %t, %v; the best costs %v", seed, steps, plan.Cost, plan.Bound, plan.Exact(), err, best.Cost)
			}
			if plan.Bound > 0 && !plan.Exact() {
				bounds++
			}
		}
	}
	if bounds == 0 {
		t.Error("no search that was given up had a bound")
	}
}
