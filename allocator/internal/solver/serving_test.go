// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// Eight claims want two devices of one value each, and there are seven values, each for one claim. That is found out at
// once, whatever it is that keeps a value from serving two claims.
func TestValuesThatServeTooFewClaims(t *testing.T) {
	const values, claims = 7, 8
	for name, tc := range map[string]struct {
		devices int // of each value
		allowed int // of those
		draws   int // of each device, on what is left for the value
		differ  []int32
	}{
		"devices":            {devices: 3, allowed: 3},
		"devices that serve": {devices: 5, allowed: 3},
		"what is left":       {devices: 4, allowed: 4, draws: 1},
		"values that differ": {devices: 4, allowed: 4, differ: []int32{0, 0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &solver.Problem{Claims: claims, MostOfClaim: 32}
			value, unit, allowed := new(solver.Column), new(solver.Column), bitset.New(uint(values*tc.devices))
			for v := range int32(values) {
				for k := range tc.devices {
					i := len(p.Devices)
					d := solver.Device{Pool: -1}
					if tc.draws > 0 {
						d = solver.Device{Draws: []solver.Draw{{Resource: v, Amount: units(tc.draws)}}}
					}
					p.Devices = append(p.Devices, d)
					value.Values = append(value.Values, []int32{v})
					if tc.differ != nil {
						unit.Values = append(unit.Values, []int32{tc.differ[k]})
					}
					allowed.SetTo(uint(i), k < tc.allowed)
				}
				if tc.draws > 0 {
					p.Left, p.PoolOf, p.KindOf = append(p.Left, units(3*tc.draws)), append(p.PoolOf, 0), append(p.KindOf, v)
				}
			}
			for claim := range int32(claims) {
				d := solver.Domain{Claim: claim, Allowed: allowed}
				cover := func(kind solver.RelationKind, column *solver.Column) {
					d.Covers = append(d.Covers, solver.Cover{Relation: int32(len(p.Relations)), Column: column})
					p.Relations = append(p.Relations, solver.Relation{Kind: kind})
				}
				cover(solver.Match, value)
				if tc.differ != nil {
					cover(solver.Distinct, unit)
				}
				p.Domains = append(p.Domains, d)
				p.Requests = append(p.Requests, solver.Request{Claim: claim, Options: []solver.Option{{Domain: claim, Count: 2}}})
			}
			var solve solver.Solver
			got := solve.Solve(t.Context(), p, 1<<20, solver.AllRules)
			if got.End != solver.None || got.Stats.Steps > 200 {
				t.Errorf("the end is %d after %d steps", got.End, got.Stats.Steps)
			}
		})
	}
}

// Twelve units suffice for twelve devices that take one each. These come after so many devices that take
// three that not all choices are tried.
func TestManyPartitionsOfDevice(t *testing.T) {
	p := wanting([]int{12}, nil, []solver.Domain{{Allowed: bitset.New(32).Complement()}})
	for i := range 32 {
		p.Devices = append(p.Devices, drawing(draw(0, 3-i/20*2)))
	}
	for range 12 {
		p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{one(0)}})
	}
	solve := solver.Solver{Patience: 1}
	if got := solve.Solve(t.Context(), p, 1<<20, solver.AllRules); got.End != solver.Found {
		t.Errorf("the end is %d after %d steps", got.End, got.Stats.Steps)
	}
}

// With any selection of rules, requests for some of the partitions of devices get the first ones that there are.
func TestPartitionsOfDevices(t *testing.T) {
	var solve solver.Solver
	found, fewer := 0, 0
	for seed := *first; seed < *first+uint64(*cases); seed++ {
		p := partitions(rand.New(rand.NewPCG(seed, 28)))
		end, naively := solveNaively(p)
		if end == naiveSpent {
			continue
		}
		if end == naiveFound {
			found++
		}
		solve.Patience = 1
		var steps []int64
		for _, rules := range append(selections(seed), solver.RuleAhead, solver.RuleAhead|solver.RuleServing) {
			got := solve.Solve(t.Context(), p, 1<<40, rules)
			if diff := differs(end, naively, got); diff != "" {
				t.Fatalf("seed %d, rules %b: %s", seed, rules, diff)
			}
			steps = append(steps, got.Stats.Decisions)
		}
		if steps[len(steps)-1] < steps[len(steps)-2] {
			fewer++
		}
	}
	if found < *cases/4 || found > *cases*3/4 || fewer < *cases/10 {
		t.Errorf("%d of %d have a solution, %d take fewer decisions", found, *cases, fewer)
	}
}

// partitions is devices of each of which parts can be had, and claims that want one of some kinds of parts, or several.
func partitions(r *rand.Rand) *solver.Problem {
	p := &solver.Problem{Claims: 1, MostOfClaim: 32 - 29*r.IntN(8)/7}
	sizes := []int{1, 2, 3}
	kinds := make([]*bitset.BitSet, len(sizes)+1) // by size, and all
	for k := range kinds {
		kinds[k] = new(bitset.BitSet)
	}
	add := func(k int, d solver.Device) {
		kinds[k].Set(uint(len(p.Devices)))
		kinds[len(sizes)].Set(uint(len(p.Devices)))
		p.Devices = append(p.Devices, d)
	}
	for range 1 + r.IntN(2) {
		first := int32(len(p.Left)) // three slices, and what there is of them together
		for range 3 {
			p.Left, p.PoolOf, p.KindOf = append(p.Left, units(1)), append(p.PoolOf, 0), append(p.KindOf, int32(len(p.Left)))
		}
		p.Left, p.PoolOf, p.KindOf = append(p.Left, units(2+r.IntN(2))), append(p.PoolOf, 0), append(p.KindOf, int32(len(p.Left)))
		for k, size := range sizes {
			for at := 0; at+size <= 3; at++ {
				d := drawing(draw(first+3, min(size, 2)))
				for s := range size {
					d.Draws = append(d.Draws, draw(first+int32(at+s), 1))
				}
				d.Shareable = r.IntN(30) == 0
				if r.IntN(8) > 0 {
					add(k, d)
				}
			}
		}
	}
	for k, kind := range kinds {
		kinds[k] = bitset.New(uint(len(p.Devices))).Union(kind)
		p.Domains = append(p.Domains, solver.Domain{Allowed: kinds[k]})
	}
	admin := r.IntN(6) == 0
	var list []solver.Option
	for n := range 2 + r.IntN(3) {
		if n == 0 || r.IntN(3) == 0 {
			list = nil
			for range 1 + r.IntN(2) {
				list = append(list, solver.Option{Domain: int32(r.IntN(len(kinds))), Count: 1 + r.IntN(2)})
			}
		}
		request := solver.Request{Claim: int32(n), Options: list}
		if admin && n > 0 && r.IntN(3) == 0 {
			request.Options = []solver.Option{one(int32(len(p.Domains)))}
			p.Domains = append(p.Domains, solver.Domain{Claim: int32(n), Admin: true, Allowed: kinds[r.IntN(len(kinds))]})
		}
		p.Requests, p.Claims = append(p.Requests, request), n+1
	}
	return p
}
