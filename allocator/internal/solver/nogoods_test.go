// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// bins is a random problem of several equal components, such as GPUs with partitions, some of which are in use. Requests
// want more or less what is left of them all.
func bins(seed uint64) *solver.Problem {
	m := maker{rand.New(rand.NewPCG(seed, 3)), traits{}, &solver.Problem{Claims: 1 + int(seed%2), MostOfClaim: 100}, make(map[int]int), make(map[int]*solver.Column)}
	if m.IntN(3) == 0 {
		m.p.MostOfClaim = 2 + m.IntN(4)
	}
	m.shares, m.groups, m.relations, m.options = m.IntN(3) == 0, m.IntN(3) == 0, m.IntN(2) == 0, m.IntN(2) == 0
	m.admin, m.sums = m.IntN(5) == 0, m.IntN(5) == 0
	of := m.addBins()
	capacities := m.capacities()
	m.p.Paid = bitset.New(uint(len(m.p.Devices)))
	values := &solver.Column{}
	apart := m.IntN(2) // whether each component has a value of its own
	for i, c := range of {
		m.p.Paid.SetTo(uint(i), m.IntN(4) == 0)
		if values.Values = append(values.Values, []int32{int32(c / (2 - apart))}); m.IntN(6) == 0 {
			values.Values[i] = append(values.Values[i], int32(m.IntN(2)+7))
		}
	}
	groups := len(m.p.Relations)
	for c := range m.p.Claims {
		var domains []int32
		for range 2 {
			d := m.domain(c, nil, capacities)
			for r := groups; r < len(m.p.Relations) && m.IntN(2) == 0; r++ {
				d.Covers = append(d.Covers, solver.Cover{Relation: int32(r), Column: values})
			}
			domains = append(domains, int32(len(m.p.Domains)))
			m.p.Domains = append(m.p.Domains, d)
		}
		if m.relations {
			// The next claim is covered by one more.
			m.p.Relations = append(m.p.Relations, solver.Relation{Kind: m.kind(), Most: 1 + m.IntN(2), Off: m.IntN(10) == 0})
		}
		for range 2 + m.IntN(5-2*m.p.Claims) {
			m.p.Requests = append(m.p.Requests, m.request(c, domains))
		}
	}
	for _, r := range m.p.Requests {
		for o := range r.Options {
			r.Options[o].Count = min(r.Options[o].Count, 1+m.IntN(2))
		}
	}
	return m.p
}

// addBins adds components of two resources each, and the devices that take of them. It returns the component of each.
func (m *maker) addBins() (of []int) {
	kinds := 2 + m.IntN(2)
	var takes [][2]int
	for range kinds {
		takes = append(takes, [2]int{1 + m.IntN(3), m.IntN(3)})
	}
	shareable := m.shares && m.IntN(2) == 0
	for c := range 2 + m.IntN(4-kinds) {
		used := m.IntN(3) / 2
		first := m.resource(0, 4+m.IntN(2)-used)
		m.p.KindOf[first] = 0
		second := m.resource(0, 3+m.IntN(2))
		m.p.KindOf[second] = 1
		if m.groups {
			m.p.Relations = append(m.p.Relations, solver.Relation{})
		}
		for k := range takes {
			for range 2 {
				d := solver.Device{Pool: 0, Shareable: shareable && k == 0, Draws: []solver.Draw{
					{Resource: first, Amount: units(takes[k][0])}, {Resource: second, Amount: units(takes[k][1])},
				}}
				if m.groups {
					d.Groups = []solver.Group{{Relation: int32(len(m.p.Relations)) - 1, Values: m.values(2)}}
				}
				m.p.Devices, of = append(m.p.Devices, d), append(of, c)
			}
		}
	}
	return of
}

// Nogoods change the steps, and not the result.
func TestNogoodsChangeNothing(t *testing.T) {
	var solve solver.Solver
	found, none, fewer, most := 0, 0, 0, *cases
	for seed := *first; seed < *first+uint64(most); seed++ {
		p := bins(seed)
		solve.Patience = patience(seed)
		end, naively := solveNaively(p)
		if end == naiveSpent {
			continue
		}
		var steps []int64
		for _, rules := range []solver.Rules{
			solver.RuleAhead, solver.RuleAhead | solver.RuleNogoods, solver.AllRules, solver.AllRules &^ solver.RuleSymmetry,
			solver.RuleAhead | solver.RulePacking, solver.RuleAhead | solver.RuleCompletion, solver.RuleAhead | solver.RuleCompletion | solver.RulePacking,
			solver.AllRules &^ solver.RuleNogoods,
		} {
			got := solve.Solve(t.Context(), p, 1<<40, rules)
			if diff := differs(end, naively, got); diff != "" {
				t.Fatalf("seed %d, rules %b: %s", seed, rules, diff)
			}
			steps = append(steps, got.Stats.Steps)
		}
		switch end {
		case naiveFound:
			found++
		case naiveNone:
			none++
		}
		if steps[1] < steps[0] {
			fewer++
		}
	}
	t.Logf("of %d problems, %d are solved, %d have no solution, %d take fewer steps", most, found, none, fewer)
	if found < most/10 || none < most/10 || fewer < most/20 {
		t.Errorf("of %d problems, %d are solved, %d have no solution, %d take fewer steps", most, found, none, fewer)
	}
}

// The first request has three choices, each of which takes the last unit that another device needs. The second one wants the
// two other devices, and can have them after the third choice only. What it lacks after the second one is all that tells
// the states apart.
func TestNogoodsTellStatesApart(t *testing.T) {
	one, two := []int32{0}, []int32{1}
	for name, change := range map[string]func(p *solver.Problem){
		"values": func(p *solver.Problem) {
			p.Relations = []solver.Relation{{Kind: solver.Match}}
			p.Domains[1].Covers = []solver.Cover{{Column: &solver.Column{Values: [][]int32{one, one, two, nil, nil, nil}}}}
		},
		"groups": func(p *solver.Problem) {
			p.Relations = []solver.Relation{{Kind: solver.Match}}
			for i, values := range [][]int32{one, one, two} {
				p.Devices[i].Groups = []solver.Group{{Values: values}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &solver.Problem{Claims: 1, MostOfClaim: 32, Domains: []solver.Domain{among(3, 4, 5), among(0, 1, 2)}}
			for i := range int32(6) {
				p.Devices = append(p.Devices, solver.Device{Draws: []solver.Draw{{Resource: i % 3, Amount: units(1)}}})
			}
			for r := range int32(3) {
				p.Left, p.PoolOf, p.KindOf = append(p.Left, units(1)), append(p.PoolOf, 0), append(p.KindOf, r)
			}
			change(p)
			for domain := range int32(2) {
				p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: domain, Count: int(domain) + 1}}})
			}
			if naively := compareFound(t, p); naively.choices[0].Device != 5 {
				t.Fatalf("trying everything chooses %v", naively.choices)
			}
		})
	}
}

// The first request prefers options with which the second one makes the claim too large, or fails.
func TestNogoodsCountDevicesOfClaim(t *testing.T) {
	p := &solver.Problem{Claims: 1, MostOfClaim: 3, Domains: []solver.Domain{among(0, 1, 2), among(3, 4), among()}}
	for i := range 5 {
		p.Devices = append(p.Devices, solver.Device{Pool: -1, Shareable: i < 3})
	}
	p.Requests = []solver.Request{
		{Options: []solver.Option{{Domain: 0, Count: 3}, {Domain: 0, Count: 2}, {Domain: 0, Count: 1}}},
		{Options: []solver.Option{{Domain: 1, Count: 2}, {Domain: 2, Count: 1}}},
	}
	if naively := compareFound(t, p); len(naively.choices) != 3 {
		t.Fatalf("trying everything chooses %v", naively.choices)
	}
}

// The first request leaves some of its values. With those of the first two choices each device of the second request is
// viable, but not both.
func TestNogoodsTellWhatIsLeftOfValues(t *testing.T) {
	values := &solver.Column{Values: [][]int32{{0, 1}, {0, 1, 3}, {2}, {0, 2}, {1, 2}}}
	p := &solver.Problem{
		Devices:   make([]solver.Device, 5),
		Relations: []solver.Relation{{Kind: solver.Match}},
		Domains:   []solver.Domain{covered(values, 0, 1, 2), covered(values, 3, 4)},
		Claims:    1, MostOfClaim: 32,
	}
	for i := range p.Devices {
		p.Devices[i].Pool = -1
	}
	for domain := range int32(2) {
		p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: domain, Count: int(domain) + 1}}})
	}
	if naively := compareFound(t, p); naively.choices[0].Device != 2 {
		t.Fatalf("trying everything chooses %v", naively.choices)
	}
}

// The first request takes one of three devices, of which the last one only leaves room for both values that the second one
// needs. All devices of the second request are viable after each.
func TestNogoodsTellHowManyValuesThereAre(t *testing.T) {
	for name, tc := range map[string]struct {
		most   int
		values [][]int32
	}{
		"which there are":    {2, [][]int32{{0}, {3}, {1}, {1}, {2}}},
		"how many there are": {3, [][]int32{{0, 3}, {3, 4}, {0}, {1}, {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			values := &solver.Column{Values: tc.values}
			p := &solver.Problem{
				Devices:   make([]solver.Device, 5),
				Relations: []solver.Relation{{Kind: solver.AtMost, Most: tc.most}},
				Domains:   []solver.Domain{covered(values, 0, 1, 2), covered(values, 3, 4)},
				Claims:    1, MostOfClaim: 32,
			}
			for i := range p.Devices {
				p.Devices[i].Pool = -1
			}
			for domain := range int32(2) {
				p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: domain, Count: int(domain) + 1}}})
			}
			if naively := compareFound(t, p); naively.choices[0].Device != 2 {
				t.Fatalf("trying everything chooses %v", naively.choices)
			}
		})
	}
}

// Each device of the second request takes of two resources. All are viable after each choice of the first one, but only
// after the third one enough is left of the second resources for all.
func TestNogoodsTellWhatIsLeft(t *testing.T) {
	p := &solver.Problem{Claims: 1, MostOfClaim: 32, Domains: []solver.Domain{among(0, 1, 2), among(3, 4, 5, 6, 7, 8)}}
	for r, left := range []int{2, 2, 2, 2, 2, 3} {
		p.Left, p.PoolOf, p.KindOf = append(p.Left, units(left)), append(p.PoolOf, 0), append(p.KindOf, int32(r))
	}
	for i := range int32(9) {
		d := solver.Device{Draws: []solver.Draw{{Resource: 3 + i%3, Amount: units(1)}}}
		if i > 2 {
			d.Draws = []solver.Draw{{Resource: i % 3, Amount: units(1)}, d.Draws[0]}
		}
		p.Devices = append(p.Devices, d)
	}
	for domain, count := range []int{1, 6} {
		p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: int32(domain), Count: count}}})
	}
	if naively := compareFound(t, p); naively.choices[0].Device != 2 {
		t.Fatalf("trying everything chooses %v", naively.choices)
	}
}

// The first request takes two of the devices 0, 1 and 2, or all of what each takes of. The others can be served by what it
// leaves of 0 only, which differs from what it leaves of 1 and 2 in one way.
func TestNogoodsTellDevicesApart(t *testing.T) {
	shares := func(amount int) (list [][]solver.Draw) {
		for i := range int32(3) {
			list = append(list, []solver.Draw{{Resource: i, Amount: units(amount)}})
		}
		return list
	}
	for name, add := range map[string]func(p *solver.Problem){
		"shareable": func(p *solver.Problem) {
			p.Domains = append(p.Domains, among(0, 1, 2))
			p.Domains[0].Shares, p.Domains[1].Shares = shares(2), shares(1)
			p.Devices[0].Shareable = true
			for range 2 {
				p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: 1, Count: 1}}})
			}
		},
		"relations of groups": func(p *solver.Problem) {
			p.Relations = []solver.Relation{{Kind: solver.Match}, {Kind: solver.Match}}
			p.Domains = append(p.Domains, among(3, 4, 5, 6, 7, 8))
			for i := range int32(3) {
				p.Devices[i].Draws = []solver.Draw{{Resource: i, Amount: units(2)}}
			}
			for i := range int32(6) {
				d := solver.Device{Draws: []solver.Draw{{Resource: i / 2, Amount: units(1)}}, Groups: []solver.Group{{Values: []int32{i % 2}}}}
				if i == 1 {
					d.Groups[0].Relation = 1
				}
				p.Devices = append(p.Devices, d)
			}
			p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: 1, Count: 2}}})
		},
		"resources": func(p *solver.Problem) {
			p.Domains = append(p.Domains, among(3, 4, 5, 6, 7, 8))
			for i := range int32(3) {
				first, second := solver.Draw{Resource: i, Amount: units(2)}, solver.Draw{Resource: i + 3, Amount: units(2)}
				p.Devices[i].Draws = []solver.Draw{first, second}
			}
			for i := range int32(6) {
				d := solver.Device{Draws: []solver.Draw{{Resource: i / 2, Amount: units(2)}}}
				if i == 1 {
					d.Draws[0].Resource = 3
				}
				p.Devices = append(p.Devices, d)
			}
			p.Requests = append(p.Requests, solver.Request{Options: []solver.Option{{Domain: 1, Count: 2}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &solver.Problem{Claims: 1, MostOfClaim: 32, Devices: make([]solver.Device, 3), Domains: []solver.Domain{among(0, 1, 2)}}
			for r := range int32(6) {
				p.Left, p.PoolOf, p.KindOf = append(p.Left, units(2)), append(p.PoolOf, 0), append(p.KindOf, r)
			}
			p.Requests = []solver.Request{{Options: []solver.Option{{Domain: 0, Count: 2}}}}
			add(p)
			if naively := compareFound(t, p); naively.choices[0].Device != 1 || naively.choices[1].Device != 2 {
				t.Fatalf("trying everything chooses %v", naively.choices)
			}
		})
	}
}
