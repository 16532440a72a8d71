// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"math/rand/v2"
	"testing"
)

// The largest sum is that of trying all of them.
func TestLargestSum(t *testing.T) {
	var largest func(items []item, left int) int
	largest = func(items []item, left int) (most int) {
		if len(items) == 0 {
			return 0
		}
		times := items[0].slots
		if !items[0].shared {
			times = min(times, items[0].devices)
		}
		for n := 0; n <= times && n*items[0].units <= left; n++ {
			most = max(most, n*items[0].units+largest(items[1:], left-n*items[0].units))
		}
		return most
	}
	var p packing
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		var items []item
		for range 1 + r.IntN(4) {
			items = append(items, item{units: 1 + r.IntN(90), slots: 1 + r.IntN(3), devices: r.IntN(4), shared: r.IntN(2) == 0})
		}
		left := r.IntN(400)
		if got, want := p.largest(left, items), largest(items, left); got != want {
			t.Fatalf("seed %d: %d of %v, want %d", seed, got, items, want)
		}
	}
}
