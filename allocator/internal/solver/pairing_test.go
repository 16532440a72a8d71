// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// pairs is a random problem of requests that match in twos, now and then with something between or beside them.
func pairs(seed uint64) *solver.Problem {
	m := maker{rand.New(rand.NewPCG(seed, 2)), traits{}, &solver.Problem{MostOfClaim: 100, Claims: 1}, make(map[int]int), make(map[int]*solver.Column)}
	m.draws, m.shares, m.groups = m.IntN(4) == 0, m.IntN(4) == 0, m.IntN(4) == 0
	m.stops, m.options, m.sums, m.fills = m.IntN(4) == 0, m.IntN(3) == 0, m.IntN(8) == 0, true
	m.addDevices()
	for range 4 + m.IntN(5) {
		m.p.Devices = append(m.p.Devices, solver.Device{Pool: -1})
	}
	if m.p.Paid != nil {
		m.p.Paid = bitset.New(uint(len(m.p.Devices)))
	}
	capacities := m.capacities()
	for range 2 + m.IntN(2) {
		relation := len(m.p.Relations)
		m.compared[relation] = 2 + m.IntN(4)
		r := solver.Relation{Begun: m.IntN(8) == 0, Left: m.values(m.compared[relation]), Off: m.IntN(8) == 0}
		if m.IntN(8) == 0 {
			r = solver.Relation{Kind: solver.Distinct}
		}
		m.p.Relations = append(m.p.Relations, r)
		var domains []int32
		for range 3 {
			domains = append(domains, int32(len(m.p.Domains)))
			d := m.domain(0, nil, capacities)
			d.Covers = []solver.Cover{m.cover(relation)}
			for i, ok := d.Allowed.NextSet(0); ok; i, ok = d.Allowed.NextSet(i + 1) {
				d.Allowed.SetTo(i, m.IntN(3) > 0)
			}
			m.p.Domains = append(m.p.Domains, d)
		}
		m.p.Requests = append(m.p.Requests, solver.Request{Options: []solver.Option{m.option(domains[0])}})
		if m.IntN(8) == 0 {
			m.p.Requests = append(m.p.Requests, solver.Request{Off: m.IntN(2) == 0, Options: []solver.Option{m.option(domains[m.IntN(2)])}})
		}
		m.p.Requests = append(m.p.Requests, m.request(0, domains[1:]))
	}
	if m.options {
		// The second of a pair may also be had without matching.
		m.p.Domains = append(m.p.Domains, m.domain(0, nil, capacities))
		last := &m.p.Requests[len(m.p.Requests)-1]
		last.Options = append(last.Options, m.option(int32(len(m.p.Domains)-1)))
	}
	for _, r := range m.p.Requests {
		for o := range r.Options {
			if m.IntN(8) > 0 && !r.Options[o].All {
				r.Options[o].Count = 1
			}
		}
	}
	m.p.Restores = solver.Restores(m.p.Devices)
	if m.IntN(4) == 0 {
		m.addOrders(rand.New(rand.NewPCG(seed, 1)))
	}
	return m.p
}

// Looking for devices that the next request can match changes the steps of the first attempt, and not the result.
func TestPairsChangeNothing(t *testing.T) {
	var solve solver.Solver
	found, fewer, most := 0, 0, 4**cases // they are small
	for seed := *first; seed < *first+uint64(most); seed++ {
		p := pairs(seed)
		end, naively := solveNaively(p)
		if end == naiveSpent {
			continue
		}
		var steps [2]int64
		for i, rules := range []solver.Rules{solver.AllRules, solver.AllRules &^ solver.RulePairs, solver.RuleAhead | solver.RulePairs} {
			got := solve.Solve(t.Context(), p, 1<<40, rules)
			if diff := differs(end, naively, got); diff != "" {
				t.Fatalf("seed %d, rules %b: %s", seed, rules, diff)
			}
			if i < len(steps) {
				steps[i] = got.Stats.Steps
			}
		}
		if end == naiveFound {
			found++
		}
		if steps[0] < steps[1] {
			fewer++
		}
	}
	if found < most/4 || fewer < most/20 {
		t.Errorf("of %d problems, %d are solved, %d in fewer steps", most, found, fewer)
	}
}
