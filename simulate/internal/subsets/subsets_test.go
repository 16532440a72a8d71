// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package subsets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Each set comes once, with what it costs, and none before one that costs less.
func TestByCost(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 47))
	for n := range 9 {
		costs := make([]float64, n)
		for i := range costs {
			costs[i] = float64(random.IntN(6))
		}
		slices.Sort(costs)
		seen := make(map[string]bool)
		before := 0.0
		for members, cost := range ByCost(costs) {
			sum := 0.0
			for _, i := range members {
				sum += costs[i]
			}
			if cost != sum || cost < before || !slices.IsSorted(members) || seen[fmt.Sprint(members)] {
				t.Fatalf("%v: %v costs %v, said is %v after %v; seen before: %t", costs, members, sum, cost, before, seen[fmt.Sprint(members)])
			}
			before, seen[fmt.Sprint(members)] = cost, true
		}
		if want := 1<<n - 1; len(seen) != want {
			t.Errorf("%d costs: %d sets, want %d", n, len(seen), want)
		}
	}
	for range ByCost([]float64{1, 2}) {
		break // the rest is not wanted
	}
}
