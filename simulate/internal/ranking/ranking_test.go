// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package ranking

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOrder compares with looking at all scores, while numbers come, go, and get other scores.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var o Order
	var scores []float64
	seen := map[string]int{}
	for step := range 200_000 {
		switch r.IntN(20) {
		case 0:
			n := r.IntN(12)
			for o.Resize(n); len(scores) < n; {
				scores = append(scores, math.NaN())
			}
			scores = scores[:n]
		default:
			if len(scores) == 0 {
				continue
			}
			number, score := r.IntN(len(scores)), float64(r.IntN(6))
			if r.IntN(5) == 0 {
				score = math.NaN()
			}
			scores[number] = score
			before := len(o.entries)
			if o.Set(number, score); len(o.entries) < before {
				seen["compacted"]++
			}
		}
		want, there := 0, false
		for i, score := range scores {
			if !math.IsNaN(score) && (!there || score > scores[want]) {
				want, there = i, true
			}
		}
		if r.IntN(10) > 0 {
			continue // entries that are out of date pile up
		}
		got, found := o.First()
		if found != there || found && got != want {
			t.Fatalf("step %d: %d (%t) of %v, want %d (%t)", step, got, found, scores, want, there)
		}
		if len(o.entries) > 2*len(scores)+spare+24 {
			t.Fatalf("step %d: %d entries for %d numbers", step, len(o.entries), len(scores))
		}
		seen[map[bool]string{false: "none", true: "found"}[found]]++
	}
	for _, kind := range []string{"compacted", "none", "found"} {
		if seen[kind] == 0 {
			t.Errorf("never: %s", kind)
		}
	}
}
