// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

// one is an option for a device of a domain.
func one(domain int32) solver.Option { return solver.Option{Domain: domain, Count: 1} }

// wanting is a problem of one claim with requests for some devices each, and resources of which so much is left.
func wanting(left []int, devices []solver.Device, domains []solver.Domain, requests ...[]solver.Option) *solver.Problem {
	p := &solver.Problem{Claims: 1, MostOfClaim: 32, Devices: devices, Domains: domains}
	for _, n := range left {
		p.Left, p.PoolOf, p.KindOf = append(p.Left, units(n)), append(p.PoolOf, 0), append(p.KindOf, 0)
	}
	for _, options := range requests {
		p.Requests = append(p.Requests, solver.Request{Options: options})
	}
	return p
}

// drawing is a device that draws on resources.
func drawing(draws ...solver.Draw) solver.Device { return solver.Device{Draws: draws} }

func draw(resource int32, n int) solver.Draw {
	return solver.Draw{Resource: resource, Amount: units(n)}
}

// sharing is wanting of devices that are shared, of each of which so much is left.
func sharing(left []int, domains []solver.Domain, requests ...[]solver.Option) *solver.Problem {
	devices := make([]solver.Device, len(left))
	for i := range devices {
		devices[i] = solver.Device{Pool: -1, Shareable: true}
	}
	p := wanting(left, devices, domains, requests...)
	for r := range p.PoolOf {
		p.PoolOf[r] = -1
	}
	return p
}

// part is a domain of shares of so much of some devices.
func part(n int, devices ...uint) solver.Domain {
	d := among(devices...)
	for _, i := range devices {
		d.Shares = append(d.Shares, []solver.Draw{draw(int32(i), n)})
	}
	return d
}

// A long search finds the solution although wrong reasoning could exclude it. The first device of the first
// request leads to no solution.
func TestLongSearchesExcludeNoSolution(t *testing.T) {
	for name, p := range map[string]*solver.Problem{
		// The second claim has access to the device of the first one, which takes of the resource once more.
		"a device serves a claim with admin access, too": func() *solver.Problem {
			p := wanting([]int{2, 1}, []solver.Device{drawing(draw(0, 1)), drawing(draw(1, 1)), drawing(), drawing(draw(1, 1))},
				[]solver.Domain{among(1, 2), among(0), among(3), among(0)}, []solver.Option{one(0)}, []solver.Option{one(1)}, []solver.Option{one(2)}, []solver.Option{one(3)})
			p.Requests[3].Claim, p.Domains[3].Claim, p.Domains[3].Admin, p.Claims = 1, 1, true, 2
			return p
		}(),
		// The last request can have one device of a resource, or two of another one.
		"an option takes several devices of a resource": wanting([]int{2, 2, 1},
			[]solver.Device{drawing(draw(0, 2)), drawing(draw(1, 1)), drawing(draw(1, 1)), drawing(draw(2, 1)), drawing(), drawing(draw(2, 1))},
			[]solver.Domain{among(3, 4), among(0), among(5), among(0), among(1, 2)},
			[]solver.Option{one(0)}, []solver.Option{one(1)}, []solver.Option{one(2)}, []solver.Option{one(3), {Domain: 4, Count: 2}}),
		// Of the resource of the first device nothing is left for the last one.
		"devices take of resources of which not as much is left": wanting([]int{1, 2},
			[]solver.Device{drawing(draw(0, 1)), drawing(draw(1, 1)), drawing(draw(0, 1), draw(1, 1))},
			[]solver.Domain{among(0, 1), among(2)}, []solver.Option{one(0)}, []solver.Option{one(1)}),
		"another device takes of one of two resources": wanting([]int{1, 1},
			[]solver.Device{drawing(draw(0, 1)), drawing(draw(1, 1)), drawing(draw(0, 1))},
			[]solver.Domain{among(0, 1), among(2)}, []solver.Option{one(0)}, []solver.Option{one(1)}),
		"another device takes less": wanting([]int{2, 2},
			[]solver.Device{drawing(draw(0, 2)), drawing(draw(1, 1)), drawing(draw(0, 1), draw(1, 1))},
			[]solver.Domain{among(0, 1), among(2)}, []solver.Option{one(0)}, []solver.Option{one(1)}),
		// All devices must have room for a share of the second request.
		"a request wants all devices": func() *solver.Problem {
			p := wanting([]int{1, 2}, []solver.Device{{Pool: -1, Shareable: true}, {Pool: -1, Shareable: true}}, []solver.Domain{{
				Allowed: bitset.New(2).Set(0).Set(1), Shares: [][]solver.Draw{{draw(0, 1)}, {draw(1, 1)}},
			}}, []solver.Option{one(0)}, []solver.Option{{Domain: 0, Count: 2, All: true, Mandatory: []int32{0, 1}}})
			p.PoolOf = []int32{-1, -1}
			return p
		}(),
		// Of the first device there is a share for the second request only, which wants one of each.
		"a request wants several devices": func() *solver.Problem {
			p := wanting([]int{1, 2}, []solver.Device{{Pool: -1, Shareable: true}, {Pool: -1, Shareable: true}}, []solver.Domain{{
				Allowed: bitset.New(2).Set(0).Set(1), Shares: [][]solver.Draw{{draw(0, 1)}, {draw(1, 1)}},
			}}, []solver.Option{one(0)}, []solver.Option{{Domain: 0, Count: 2}})
			p.PoolOf = []int32{-1, -1}
			return p
		}(),
		// The first device has enough for the request that wants much of it, and not for both.
		"a request has a total": func() *solver.Problem {
			p := wanting([]int{1, 2}, []solver.Device{{Pool: -1, Shareable: true}, {Pool: -1, Shareable: true}}, []solver.Domain{{
				Allowed: bitset.New(2).Set(0).Set(1), Shares: [][]solver.Draw{{draw(0, 1)}, {draw(1, 1)}}, Gives: [][]amount.Amount{{units(2), units(1)}},
			}}, []solver.Option{{Domain: 0, Count: 1, Totals: []amount.Amount{units(0)}}}, []solver.Option{{Domain: 0, Count: 1, Totals: []amount.Amount{units(2)}}})
			p.PoolOf = []int32{-1, -1}
			return p
		}(),
		// With two devices for the first request, the claim has no room for two more.
		"an option takes what the claim has room for": func() *solver.Problem {
			p := wanting(nil, []solver.Device{{Pool: -1}, {Pool: -1}, {Pool: -1}, {Pool: -1}, {Pool: -1}, {Pool: -1}},
				[]solver.Domain{among(0, 1), among(2), among(3, 4, 5)},
				[]solver.Option{{Domain: 0, Count: 2}, one(1)}, []solver.Option{{Domain: 2, Count: 2}})
			p.MostOfClaim = 3
			return p
		}(),
		// Only the first request can have the last device, and the others cannot have it in exchange.
		"a request has another option": wanting([]int{1, 1}, []solver.Device{drawing(draw(0, 1)), drawing(draw(1, 1)), drawing()},
			[]solver.Domain{among(0, 1), among(2)}, []solver.Option{one(0), one(1)}, []solver.Option{one(0)}, []solver.Option{one(0)}),
		// What the first request has of the first device fills it, and the second one, which wants two devices, needs it.
		"a part fills a device that another request needs": sharing([]int{4, 6, 5},
			[]solver.Domain{part(2, 0, 1, 2), part(4, 0, 1, 2), part(5, 0, 1, 2)},
			[]solver.Option{one(1)}, []solver.Option{{Domain: 0, Count: 2}}, []solver.Option{one(0)}, []solver.Option{one(2)}),
		// The same, and those that need it cannot have the last device.
		"a part fills a device that others cannot exchange": sharing([]int{4, 4, 11},
			[]solver.Domain{part(4, 0, 1, 2), part(2, 0, 1)},
			[]solver.Option{one(1)}, []solver.Option{one(0)}, []solver.Option{one(0)}, []solver.Option{one(1)}, []solver.Option{one(1)}, []solver.Option{one(1)}),
	} {
		t.Run(name, func(t *testing.T) { compareFound(t, p) })
	}
}

// With any selection of rules, shares of equal devices that take nearly all of them get the first solution that there is.
func TestNearlyFullDevices(t *testing.T) {
	var solve solver.Solver
	found := 0
	for seed := *first; seed < *first+uint64(*cases); seed++ {
		r := rand.New(rand.NewPCG(seed, 25))
		p := fill(r)
		end, naively := solveNaively(p)
		if end == naiveSpent {
			continue
		}
		if end == naiveFound {
			found++
		}
		for _, rules := range append(selections(seed), solver.RuleAhead|solver.RuleCompletion) {
			solve.Patience = 1
			if diff := differs(end, naively, solve.Solve(t.Context(), p, 1<<40, rules)); diff != "" {
				t.Fatalf("seed %d, rules %b: %s", seed, rules, diff)
			}
		}
	}
	if found < *cases/4 || found > *cases*3/4 {
		t.Errorf("%d of %d have a solution", found, *cases)
	}
}

// fill is devices of which parts are left, and requests for parts of them, of which some differ in one thing from the others.
func fill(r *rand.Rand) *solver.Problem {
	n, odd := 2+r.IntN(2), r.IntN(10)
	p := &solver.Problem{Claims: 1 + r.IntN(2), MostOfClaim: 32}
	allowed := bitset.New(uint(n))
	var parts []int
	for i := range n {
		left := 6 + r.IntN(10)
		p.Devices = append(p.Devices, solver.Device{Pool: -1, Shareable: true})
		p.Left, p.PoolOf, p.KindOf = append(p.Left, units(left+r.IntN(4)/3)), append(p.PoolOf, -1), append(p.KindOf, 0)
		allowed.Set(uint(i))
		for left > 0 && len(parts) < 8 {
			part := 1 + r.IntN(min(7, left))
			parts, left = append(parts, part), left-part
		}
	}
	for range r.IntN(3) {
		parts[r.IntN(len(parts))]++
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if r.IntN(2) == 0 {
		slices.Sort(parts)
	}
	if odd == 0 {
		p.MostOfClaim = len(parts) - 1
	}
	domains := make(map[int]int32)
	for k, part := range parts {
		if _, known := domains[part]; !known {
			d := solver.Domain{Allowed: allowed}
			for i := range n {
				d.Shares = append(d.Shares, []solver.Draw{draw(int32(i), part)})
			}
			switch {
			case odd == 1 && len(domains) == 1: // takes another amount of a device
				d.Shares[0] = []solver.Draw{draw(0, part+1)}
			case odd == 2 && len(domains) == 1: // may not have each device
				d.Allowed = allowed.Clone().Clear(0)
			case odd == 3 && len(domains) < 2: // a relation
				d.Covers = []solver.Cover{{Relation: 0, Column: &solver.Column{Values: [][]int32{{0}, {0}, {1}}[:n]}}}
				p.Relations = []solver.Relation{{Kind: solver.Match}}
			}
			domains[part] = int32(len(p.Domains))
			p.Domains = append(p.Domains, d)
		}
		request := solver.Request{Options: []solver.Option{one(domains[part])}, Claim: int32(k * p.Claims / len(parts))}
		switch {
		case odd == 4 && k == 0: // or none
			request.Options = append(request.Options, solver.Option{Domain: domains[part], Count: 2})
		case odd == 5 && k == 0:
			request.Options[0].Count = 2
		}
		p.Requests = append(p.Requests, request)
	}
	return p
}
