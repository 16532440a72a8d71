// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// copies is a random problem of two or three claims that want the same, but for some in which one thing differs.
func copies(seed uint64) *solver.Problem {
	m := maker{rand.New(rand.NewPCG(seed, 6)), everything(), &solver.Problem{MostOfClaim: 100, Claims: 1}, make(map[int]int), make(map[int]*solver.Column)}
	for _, trait := range []*bool{&m.options, &m.draws, &m.shares, &m.groups, &m.relations, &m.sums, &m.gangs} {
		*trait = m.IntN(2) == 0
	}
	m.admin, m.all, m.stops, m.fills, m.negative = m.IntN(8) == 0, m.IntN(8) == 0, m.IntN(8) == 0, false, false
	m.groups = m.groups && m.draws
	m.addDevices()
	m.addRelations()
	m.addClaims()
	for _, r := range m.p.Requests {
		for o := range r.Options {
			if option := &r.Options[o]; !option.All && m.IntN(4) > 0 {
				option.Count = min(option.Count, 1) // so that several claims can have that many
			}
		}
	}
	requests, domains := len(m.p.Requests), len(m.p.Domains)
	for c := int32(1); c < 2+int32(m.IntN(2)); c++ {
		m.p.Claims++
		standIn := make(map[int32]int32)
		for _, d := range slices.Clone(m.p.Domains[:domains]) {
			d.Claim, d.Covers = c, slices.Clone(d.Covers)
			for k := range d.Covers {
				r := d.Covers[k].Relation
				if _, known := standIn[r]; !known {
					standIn[r] = r
					if m.p.Relations[r].Kind != solver.Match || m.IntN(3) > 0 {
						standIn[r] = int32(len(m.p.Relations))
						m.p.Relations = append(m.p.Relations, m.p.Relations[r])
					}
				}
				d.Covers[k].Relation = standIn[r]
			}
			m.p.Domains = append(m.p.Domains, d)
		}
		for _, r := range slices.Clone(m.p.Requests[:requests]) {
			r.Claim, r.Options = c, slices.Clone(r.Options)
			for o := range r.Options {
				if d := &r.Options[o].Domain; m.p.Domains[*d].Admin || len(m.p.Domains[*d].Covers) > 0 || m.IntN(2) == 0 {
					*d += c * int32(domains)
				}
			}
			m.p.Requests = append(m.p.Requests, r)
		}
	}
	if m.IntN(3) == 0 {
		m.differ(requests, domains)
	}
	if m.IntN(2) == 0 {
		m.addOrders(m.Rand)
	}
	return m.p
}

// differ changes one thing of a copy.
func (m *maker) differ(requests, domains int) {
	r := &m.p.Requests[requests+m.IntN(len(m.p.Requests)-requests)]
	d := &m.p.Domains[domains+m.IntN(len(m.p.Domains)-domains)]
	switch m.IntN(6) {
	case 0:
		r.Off = true
	case 1:
		if o := &r.Options[0]; !o.All {
			o.Count = 1 + o.Count%2
		}
	case 2:
		d.Allowed = d.Allowed.Clone()
		d.Allowed.Clear(uint(m.IntN(len(m.p.Devices))))
	case 3:
		if len(d.Covers) > 0 {
			d.Covers = d.Covers[1:]
		}
	case 4:
		if len(d.Covers) > 0 {
			m.p.Relations[d.Covers[0].Relation].Off = true
		}
	default:
		if len(d.Covers) > 0 {
			d.Covers[0].Column = m.column(int(d.Covers[0].Relation) % max(1, len(m.compared)))
		}
	}
}

// RuleEqual, which gives equal claims and requests no earlier choices, changes the steps, and not the result.
func TestEqualClaimsChangeNothing(t *testing.T) {
	var solve solver.Solver
	found, none, fewer := 0, 0, 0
	for seed := *first; seed < *first+uint64(*cases); seed++ {
		p := copies(seed)
		end, naively := solveNaively(p)
		if end == naiveSpent {
			continue
		}
		var steps []int64
		for _, rules := range []solver.Rules{
			solver.RuleAhead, solver.RuleAhead | solver.RuleEqual, solver.RuleAhead | solver.RuleEqual | solver.RuleNogoods,
			solver.RuleAhead | solver.RuleEqual | solver.RuleSymmetry, solver.RuleAhead | solver.RuleEqual | solver.RuleCompletion, solver.AllRules,
		} {
			solve.Patience = patience(seed)
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
	t.Logf("of %d problems, %d are solved, %d have no solution, %d take fewer steps", *cases, found, none, fewer)
	if found < *cases/10 || none < *cases/10 || fewer < *cases/50 {
		t.Errorf("of %d problems, %d are solved, %d have no solution, %d take fewer steps", *cases, found, none, fewer)
	}
}

// Two claims want a device of 0 to 2 and one of 3 and 4, with values that are related, and a last one wants device 0, so that
// the first attempt fails. In the first solution, the second claim has a device that comes before that of the first one: they
// differ in a device before, or are not equal. Device 5 is for a claim before them.
func TestLaterClaimsMayHaveEarlierChoices(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds  [2]solver.RelationKind
		values [6]int32
		// before has the first relation cover the claim before.
		before bool
		want   []int32
	}{
		"an earlier device differs": {values: [6]int32{0, 0, 1, 1, 0, 0}, want: []int32{5, 1, 4, 2, 3, 0}},
		"kinds of relations differ": {kinds: [2]solver.RelationKind{solver.Distinct, solver.Match}, values: [6]int32{1, 0, 1, 0, 0, 0}, want: []int32{5, 2, 3, 1, 4, 0}},
		"relations of other claims": {before: true, values: [6]int32{0, 1, 0, 0, 1, 0}, want: []int32{5, 2, 3, 1, 4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			column := &solver.Column{}
			p := &solver.Problem{Claims: 4, MostOfClaim: 32, Relations: []solver.Relation{{Kind: tc.kinds[0]}, {Kind: tc.kinds[1]}}}
			for _, v := range tc.values {
				column.Values = append(column.Values, []int32{v})
				p.Devices = append(p.Devices, solver.Device{Pool: -1})
			}
			ask := func(claim int32, relation int32, devices ...uint) {
				d := among(devices...)
				if d.Claim = claim; relation >= 0 {
					d.Covers = []solver.Cover{{Relation: relation, Column: column}}
				}
				p.Domains = append(p.Domains, d)
				p.Requests = append(p.Requests, solver.Request{Claim: claim, Options: []solver.Option{{Domain: int32(len(p.Domains)) - 1, Count: 1}}})
			}
			if tc.before {
				ask(0, 0, 5)
			} else {
				ask(0, -1, 5)
			}
			for claim := range int32(2) {
				ask(claim+1, claim, 0, 1, 2)
				ask(claim+1, claim, 3, 4)
			}
			ask(3, -1, 0)
			naively := compareFound(t, p)
			for i, c := range naively.choices {
				if c.Device != tc.want[i] {
					t.Fatalf("trying everything chooses %v", naively.choices)
				}
			}
		})
	}
}
