// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"slices"
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

// Devices 0 and 2 are alike, and still it matters which of them the first request takes: shares are filled in
// the order of devices. With 0 taken, 1 is filled before 2 and has nothing left for the last request.
func TestFillsDependOnOrder(t *testing.T) {
	left := []amount.Amount{units(6), units(5), units(6)}
	fixed := func(device int32, n int) [][]solver.Draw {
		shares := make([][]solver.Draw, len(left))
		for i := range shares {
			shares[i] = []solver.Draw{{Resource: int32(i)}}
		}
		shares[device][0].Amount = units(n)
		return shares
	}
	first := fixed(0, 6)
	first[2][0].Amount = units(6)
	p := &solver.Problem{
		Devices: make([]solver.Device, len(left)), Left: left, PoolOf: []int32{-1, -1, -1}, KindOf: []int32{0, 0, 0},
		Domains: []solver.Domain{
			{Allowed: bitset.New(3).Set(0).Set(2), Shares: first},
			{Allowed: bitset.New(3).Set(0).Set(1).Set(2), Shares: fixed(0, 0), Gives: [][]amount.Amount{left}, Fills: [][]solver.Fill{
				{{Resource: 0, Step: units(4)}, {Resource: 1, Step: units(1)}, {Resource: 2, Step: units(4)}},
			}},
			{Allowed: bitset.New(3).Set(1), Shares: fixed(1, 3)},
		},
		Requests: []solver.Request{
			{Options: []solver.Option{{Domain: 0, Count: 1}}},
			{Options: []solver.Option{{Domain: 1, Count: 2, Totals: []amount.Amount{units(6)}}}},
			{Options: []solver.Option{{Domain: 2, Count: 1}}},
		},
		Claims: 1, MostOfClaim: 32,
	}
	for i := range p.Devices {
		p.Devices[i] = solver.Device{Pool: -1, Shareable: true}
	}
	if naively := compareFound(t, p); naively.choices[0].Device != 2 {
		t.Fatalf("trying everything chooses %v", naively.choices)
	}
}

// The caller keeps Result.Filled, unlike Choices, while the same solver searches for a preference.
func TestFilledOutlivesTheNextSearch(t *testing.T) {
	has := traits{sums: true, fills: true, shares: true}
	var solve solver.Solver
	filled := 0
	for seed := range uint64(200) {
		first := solve.Solve(t.Context(), random(seed, has), 1<<40, solver.AllRules)
		want := sumsOf(first.Filled)
		solve.Solve(t.Context(), random(seed+1, has), 1<<40, solver.AllRules)
		if got := sumsOf(first.Filled); !slices.Equal(got, want) {
			t.Fatalf("seed %d: what is filled was %v, and is %v after another search", seed, want, got)
		}
		filled += len(want)
	}
	if filled == 0 {
		t.Error("no share fills anything")
	}
}
