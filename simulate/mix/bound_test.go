// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"math/rand/v2"
	"testing"

	"github.com/dray-project/dray/simulate/mix"
)

// No plan costs less than its bound, however early the search is given up.
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

// Room on real nodes costs nothing: a bound that ignores it exceeds the best plan.
func TestFindBoundWithRealNodes(t *testing.T) {
	free := 0
	for seed := uint64(1200); seed < 1600; seed++ {
		l := newLab(t)
		state, q := l.generate(rand.New(rand.NewPCG(seed, 77)), features{existing: true, nics: seed%2 == 0, cpu: seed%3 == 0})
		best, err := mix.Find(t.Context(), state, q)
		if err != nil || !best.Exact() {
			t.Fatalf("seed %d: exact %t, %v", seed, best.Exact(), err)
		}
		if best.Cost == 0 && len(best.Existing) > 0 {
			free++
		}
		for _, steps := range []int64{20, 100, 400, 2000} {
			q.Steps = steps
			plan, err := mix.Find(t.Context(), state, q)
			if err != nil || len(plan.Left) == len(best.Left) && plan.Bound > best.Cost+1e-9 {
				t.Errorf("seed %d, %d steps: cost %v, bound %v, %v; the best costs %v", seed, steps, plan.Cost, plan.Bound, err, best.Cost)
			}
		}
	}
	if free < 20 {
		t.Errorf("only %d questions need no new node", free)
	}
}
