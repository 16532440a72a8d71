// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

var (
	cases = flag.Int("cases", 2000, "how many random problems of each kind to solve")
	first = flag.Uint64("seed", 1, "seed of the first one")
	// A few problems take as much time as all others.
	naiveSteps = flag.Int("steps", 50_000, "leave out random problems for which trying everything takes more steps")
)

// With any selection of rules, the result is that of trying everything in order.
func TestRulesChangeNothing(t *testing.T) {
	for name, has := range map[string]traits{
		"everything":        everything(),
		"relations":         {relations: true},
		"across claims":     {relations: true, across: true, admin: true, options: true},
		"fills":             {sums: true, fills: true, shares: true, options: true, relations: true},
		"sums":              {sums: true, options: true, relations: true, draws: true},
		"gangs":             {relations: true, gangs: true, options: true, admin: true},
		"gangs, draws":      {relations: true, gangs: true, draws: true, shares: true, options: true},
		"gangs, shares":     {relations: true, gangs: true, shares: true},
		"gangs, across":     {relations: true, gangs: true, across: true, stops: true},
		"shares, relations": {shares: true, relations: true, options: true},
		"draws, groups":     {draws: true, groups: true, shares: true},
		"apart, relations":  {apart: true, relations: true, across: true, options: true},
		"apart, draws":      {apart: true, draws: true, options: true},
		"apart, groups":     {apart: true, draws: true, groups: true},
		"stops":             {stops: true, relations: true, all: true, options: true},
		"orders":            {orders: true, relations: true, draws: true, shares: true, options: true},
		"orders, fills":     {orders: true, sums: true, fills: true, shares: true, options: true},
		"admin":             {admin: true, shares: true, options: true},
	} {
		t.Run(name, func(t *testing.T) { compareRules(t, has) })
	}
}

func compareRules(t *testing.T, has traits) {
	cases := *cases
	counts := make(map[solver.End]int)
	backtracked := 0
	var solve solver.Solver
	for seed := *first; seed < *first+uint64(cases); seed++ {
		p := random(seed, has)
		solve.Patience = patience(seed)
		end, naively := solveNaively(p)
		if end == naiveSpent {
			continue
		}
		for _, rules := range selections(seed) {
			got := solve.Solve(t.Context(), p, 1<<40, rules)
			if diff := differs(end, naively, got); diff != "" {
				t.Fatalf("seed %d, rules %b: %s", seed, rules, diff)
			}
			if rules == solver.AllRules {
				counts[got.End]++
				if got.Stats.Backtracks > 0 {
					backtracked++
				}
			}
		}
	}
	t.Logf("none %d, found %d, stopped %d; %d went back", counts[solver.None], counts[solver.Found], counts[solver.Stopped], backtracked)
	for _, end := range []solver.End{solver.None, solver.Found, solver.Stopped} {
		if counts[end] < cases/20 && (end != solver.Stopped || has.stops) {
			t.Errorf("only %d of %d problems end with end %d", counts[end], cases, end)
		}
	}
	if backtracked < cases/15 {
		t.Errorf("only %d of %d problems need a second attempt", backtracked, cases)
	}
}

// Device 2 needs what only device 1 gives back, and device 0 comes first. So what is refused does not stay
// refused, and there is no looking ahead.
func TestDevicesThatRestore(t *testing.T) {
	draws := func(n int) solver.Device { return solver.Device{Draws: []solver.Draw{{Amount: units(n)}}} }
	p := &solver.Problem{
		Devices: []solver.Device{{Pool: -1}, draws(-1), draws(1)},
		Left:    []amount.Amount{units(0)}, PoolOf: []int32{0}, KindOf: []int32{0},
		Domains:  []solver.Domain{among(0, 1), among(2)},
		Requests: []solver.Request{{Options: []solver.Option{{Domain: 0, Count: 1}}}, {Options: []solver.Option{{Domain: 1, Count: 1}}}},
		Claims:   1, MostOfClaim: 32,
	}
	p.Restores = solver.Restores(p.Devices)
	compareFound(t, p)
}

// The request that is out of the problem could only be served with another value.
func TestRequestsThatAreOffWantNoValue(t *testing.T) {
	values := &solver.Column{Values: [][]int32{{0}, {1}, {1}, {0}}}
	compareFound(t, &solver.Problem{
		Devices:   []solver.Device{{Pool: -1}, {Pool: -1}, {Pool: -1}, {Pool: -1}},
		Relations: []solver.Relation{{Kind: solver.Match}},
		Domains:   []solver.Domain{covered(values, 0, 1), covered(values, 2), covered(values, 3)},
		Requests: []solver.Request{
			{Options: []solver.Option{{Domain: 0, Count: 1}}},
			{Options: []solver.Option{{Domain: 1, Count: 1}}},
			{Options: []solver.Option{{Domain: 2, Count: 1}}, Off: true},
		},
		Claims: 1, MostOfClaim: 32,
	})
}

// Requests of two claims have a domain in common, and the second claim has admin access to what the first
// one took. What differs within the second claim does not differ from that.
func TestAdminAccessToWhatAnEarlierClaimTook(t *testing.T) {
	admin := among(0)
	admin.Claim, admin.Admin = 1, true
	one := func(claim, domain int32) solver.Request {
		return solver.Request{Claim: claim, Options: []solver.Option{{Domain: domain, Count: 1}}}
	}
	compareFound(t, &solver.Problem{
		Devices:  []solver.Device{{Pool: -1}, {Pool: -1}, {Pool: -1}},
		Domains:  []solver.Domain{among(0, 1, 2), admin, among(1)},
		Requests: []solver.Request{one(0, 0), one(1, 0), one(1, 1), one(1, 2)},
		Claims:   2, MostOfClaim: 32,
	})
}

// The first device has no value that the second request could have, and that has one of its two values only
// in common with the other.
func TestOneValueOfListServes(t *testing.T) {
	values := &solver.Column{Values: [][]int32{{2}, {1}, {0, 1}}}
	one := func(domain int32) solver.Request {
		return solver.Request{Options: []solver.Option{{Domain: domain, Count: 1}}}
	}
	compareFound(t, &solver.Problem{
		Devices:   []solver.Device{{Pool: -1}, {Pool: -1}, {Pool: -1}},
		Relations: []solver.Relation{{Kind: solver.Match}},
		Domains:   []solver.Domain{covered(values, 0, 1), covered(values, 2)},
		Requests:  []solver.Request{one(0), one(1)},
		Claims:    1, MostOfClaim: 32,
	})
}

// Two devices without a value are each the only one of a relation. Other requests lead to a dead end.
func TestRelationsOfOneDeviceNeedNoValue(t *testing.T) {
	values := &solver.Column{Values: [][]int32{{}, {}, {0}, {0}}}
	first, second := covered(values, 0), covered(values, 1)
	second.Covers[0].Relation = 1
	p := &solver.Problem{
		Devices:   []solver.Device{{Pool: -1}, {Pool: -1}, {Pool: -1}, {Pool: -1}},
		Relations: []solver.Relation{{Kind: solver.Match}, {Kind: solver.Match}},
		Domains:   []solver.Domain{first, second, among(2, 3), among(2)},
		Claims:    1, MostOfClaim: 32,
	}
	for domain := range int32(4) {
		p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: domain, Count: 1}}})
	}
	compareFound(t, p)
}

// covered is a domain of some devices that relation 0 covers.
func covered(values *solver.Column, devices ...uint) solver.Domain {
	d := among(devices...)
	d.Covers = []solver.Cover{{Column: values}}
	return d
}

// among is a domain of some devices.
func among(devices ...uint) solver.Domain {
	d := solver.Domain{Allowed: bitset.New(5)}
	for _, i := range devices {
		d.Allowed.Set(i)
	}
	return d
}

// compareFound compares selections of rules on a problem with a solution.
func compareFound(t *testing.T, p *solver.Problem) *naive {
	t.Helper()
	end, naively := solveNaively(p)
	if end != naiveFound {
		t.Fatalf("trying everything ends with %d", end)
	}
	for patience := range int64(2) {
		solve := solver.Solver{Patience: patience}
		for _, rules := range selections(1) {
			if diff := differs(end, naively, solve.Solve(t.Context(), p, 1<<40, rules)); diff != "" {
				t.Errorf("rules %b: %s", rules, diff)
			}
		}
	}
	return naively
}

// patience is how many steps a search takes before it uses all rules: none, a few, or more than it needs.
func patience(seed uint64) int64 { return []int64{1, 20, 0}[seed%3] }

// selections are all rules, none, each alone, each left out, and some at random.
func selections(seed uint64) []solver.Rules {
	all := solver.Rules(solver.AllRules)
	list := []solver.Rules{all, 0, solver.RuleAhead}
	for rule := solver.Rules(1); rule < all; rule <<= 1 {
		list = append(list, solver.RuleAhead|rule, all&^rule)
	}
	for k := range uint64(4) {
		list = append(list, solver.RuleAhead|solver.Rules((seed*0x9E3779B97F4A7C15>>7)>>(k*12))&all)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func differs(end naiveEnd, naively *naive, got solver.Result) string {
	want := map[naiveEnd]solver.End{
		naiveNone: solver.None, naiveOversized: solver.None, naiveFound: solver.Found, naiveStopped: solver.Stopped,
	}[end]
	taken, _ := naively.filled()
	switch {
	case got.End != want:
		return fmt.Sprintf("end %d, want %d (%v, stop %+v)", got.End, want, naively.choices, naively.stop)
	case want == solver.Found && !slices.Equal(got.Choices, naively.choices):
		return fmt.Sprintf("choices %v, want %v", got.Choices, naively.choices)
	case want == solver.Found && !slices.Equal(sumsOf(got.Filled), sumsOf(taken)):
		return fmt.Sprintf("filled %v, want %v", got.Filled, taken)
	case want == solver.Stopped && got.Stop != naively.stop:
		return fmt.Sprintf("stop %+v, want %+v", got.Stop, naively.stop)
	}
	return ""
}

// sumsOf is what choices take of each resource, in words.
func sumsOf(filled [][]solver.Draw) (sums []string) {
	for i, draws := range filled {
		of := make(map[int32]amount.Amount)
		for _, draw := range draws {
			of[draw.Resource] = of[draw.Resource].Add(draw.Amount)
		}
		for _, r := range slices.Sorted(maps.Keys(of)) {
			if !of[r].IsZero() {
				sums = append(sums, fmt.Sprintf("choice %d takes %s of %d", i, of[r], r))
			}
		}
	}
	return sums
}
