// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"math/rand/v2"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

// traits are what random problems have. Apart, domains have all devices in common or none. Gangs are claims with a Match
// relation each, and some with a Distinct one, all of which compare the same.
type traits struct {
	options, all, admin, shares, draws, groups, relations, across, sums, fills, stops, negative, apart, orders, gangs bool
}

func everything() traits {
	return traits{options: true, all: true, admin: true, shares: true, draws: true, groups: true, relations: true, across: true, sums: true, fills: true, stops: true, negative: true, apart: true, orders: true, gangs: true}
}

// units is an amount.
func units(n int) (a amount.Amount) {
	one := amount.Nano(1)
	for range max(n, -n) {
		if n < 0 {
			a = a.Sub(one)
		} else {
			a = a.Add(one)
		}
	}
	return a
}

// maker makes small random problems.
type maker struct {
	*rand.Rand
	traits
	p *solver.Problem
	// compared is how many values there are, by relation.
	compared map[int]int
	// columns are those that domains have in common, by relation.
	columns map[int]*solver.Column
}

func random(seed uint64, has traits) *solver.Problem {
	m := maker{rand.New(rand.NewPCG(seed, 0)), has, &solver.Problem{MostOfClaim: 100}, make(map[int]int), make(map[int]*solver.Column)}
	// Half of the problems have some of the traits only, so that none hides another one.
	for _, trait := range []*bool{&m.options, &m.all, &m.admin, &m.shares, &m.draws, &m.groups, &m.relations, &m.across, &m.sums, &m.fills, &m.stops, &m.apart, &m.gangs} {
		*trait = *trait && (seed%2 == 0 || m.IntN(2) == 0)
	}
	m.negative = m.negative && m.IntN(20) == 0
	m.groups = m.groups && m.draws
	m.p.Claims = 1 + m.IntN(3)
	m.addDevices()
	m.addRelations()
	m.addClaims()
	if has.orders {
		m.addOrders(rand.New(rand.NewPCG(seed, 1)))
	}
	return m.p
}

// addOrders has half of the domains try their devices in an order of their own.
func (m *maker) addOrders(r *rand.Rand) {
	for k := range m.p.Domains {
		d := &m.p.Domains[k]
		order := []int32{}
		for _, i := range r.Perm(len(m.p.Devices)) {
			if d.Allowed.Test(uint(i)) || d.Stops != nil && d.Stops.Test(uint(i)) {
				order = append(order, int32(i))
			}
		}
		if r.IntN(2) == 0 {
			d.Order = order
		}
	}
}

func (m *maker) addDevices() {
	n := 2 + m.IntN(6)
	pools := 1 + m.IntN(2)
	if m.draws {
		for r := range pools * (1 + m.IntN(3)) {
			m.resource(int32(r%pools), m.IntN(8)-m.IntN(2))
		}
	}
	resources := len(m.p.Left)
	if m.groups {
		for range 1 + m.IntN(2) {
			m.compared[len(m.p.Relations)] = 3
			m.p.Relations = append(m.p.Relations, solver.Relation{Kind: solver.Match, Begun: m.IntN(4) == 0, Left: m.values(3)})
		}
	}
	groups := len(m.p.Relations)
	if m.shares {
		m.p.Paid = bitset.New(uint(n))
	}
	for i := range n {
		d := solver.Device{Pool: -1, Shareable: m.shares && m.IntN(2) == 0}
		if m.draws && m.IntN(4) > 0 {
			d.Pool = int32(m.IntN(pools))
			for r := range resources {
				if m.p.PoolOf[r] == d.Pool && m.IntN(3) > 0 {
					least := 0
					if m.negative && m.IntN(4) == 0 {
						least = -2
					}
					d.Draws = append(d.Draws, solver.Draw{Resource: int32(r), Amount: units(least + m.IntN(5))})
				}
			}
			for g := range groups {
				if m.IntN(2) == 0 {
					d.Groups = append(d.Groups, solver.Group{Relation: int32(g), Values: m.values(3)})
				}
			}
		}
		if m.shares && m.IntN(4) == 0 {
			m.p.Paid.Set(uint(i))
		}
		m.p.Devices = append(m.p.Devices, d)
	}
	m.p.Restores = solver.Restores(m.p.Devices)
}

func (m *maker) resource(pool int32, left int) int32 {
	m.p.Left = append(m.p.Left, units(left))
	m.p.PoolOf = append(m.p.PoolOf, pool)
	m.p.KindOf = append(m.p.KindOf, int32(m.IntN(2)))
	return int32(len(m.p.Left)) - 1
}

// kind is that of a relation, mostly Match.
func (m *maker) kind() solver.RelationKind {
	return solver.RelationKind(max(0, m.IntN(2*solver.Kinds)-solver.Kinds))
}

// values is a list of values, mostly one.
func (m *maker) values(of int) []int32 {
	values := []int32{int32(m.IntN(of))}
	if v := int32(m.IntN(of)); m.IntN(3) == 0 && v != values[0] {
		values = append(values, v)
	}
	return values
}

func (m *maker) addRelations() {
	if !m.relations {
		return
	}
	if m.gangs {
		for kind := range solver.RelationKind(1 + m.IntN(solver.Kinds)) {
			for range m.p.Claims {
				m.compared[len(m.p.Relations)] = 3
				m.p.Relations = append(m.p.Relations, solver.Relation{Kind: kind, Most: 1 + m.IntN(2), Off: m.IntN(10) == 0})
			}
		}
		return
	}
	for range 1 + m.IntN(3) {
		r := solver.Relation{Kind: m.kind(), Most: 1 + m.IntN(2)}
		m.compared[len(m.p.Relations)] = 2 + m.IntN(3)
		r.Off = m.IntN(10) == 0
		m.p.Relations = append(m.p.Relations, r)
	}
}

func (m *maker) addClaims() {
	if m.IntN(3) == 0 {
		m.p.MostOfClaim = 1 + m.IntN(4)
	}
	ofClaim := make([][]int, m.p.Claims) // relations
	first := len(m.p.Relations)
	for r := range m.p.Relations {
		inGroups := false
		for i := range m.p.Devices {
			for _, g := range m.p.Devices[i].Groups {
				inGroups = inGroups || int(g.Relation) == r
			}
		}
		if inGroups || m.p.Relations[r].Begun {
			continue
		}
		first = min(first, r)
		c := m.IntN(m.p.Claims)
		if m.gangs {
			c = r % m.p.Claims
		}
		ofClaim[c] = append(ofClaim[c], r)
		if m.across && m.p.Relations[r].Kind == solver.Match && m.IntN(2) == 0 {
			for other := range ofClaim {
				if other != c {
					ofClaim[other] = append(ofClaim[other], r)
				}
			}
			m.p.Relations[r].Begun = m.IntN(4) == 0
			m.p.Relations[r].Left = m.values(m.compared[r])
		}
	}
	capacities := m.capacities()
	var common []int32 // domains that all claims can have
	for c := range m.p.Claims {
		domains := slices.Clone(common)
		for range 1 + m.IntN(2) {
			domains = append(domains, int32(len(m.p.Domains)))
			d := m.domain(c, ofClaim[c], capacities)
			if len(d.Covers) == 0 && !d.Admin && m.IntN(2) == 0 {
				common = append(common, int32(len(m.p.Domains)))
			}
			m.p.Domains = append(m.p.Domains, d)
		}
		for range 1 + m.IntN(3) {
			m.p.Requests = append(m.p.Requests, m.request(c, domains))
		}
	}
}

// capacities gives each shareable device resources for its shares.
func (m *maker) capacities() [][]int32 {
	of := make([][]int32, len(m.p.Devices))
	for i := range m.p.Devices {
		if m.p.Devices[i].Shareable {
			for range m.IntN(3) {
				of[i] = append(of[i], m.resource(-1, m.IntN(8)))
			}
		}
	}
	return of
}

func (m *maker) domain(claim int, relations []int, capacities [][]int32) solver.Domain {
	n := len(m.p.Devices)
	d := solver.Domain{Claim: int32(claim), Admin: m.admin && m.IntN(3) == 0, Allowed: bitset.New(uint(n))}
	if m.stops && m.IntN(4) == 0 {
		d.Stops = bitset.New(uint(n))
	}
	side := m.IntN(2)
	for i := range n {
		switch {
		case m.apart && i%2 != side:
		case d.Stops != nil && m.IntN(6) == 0:
			d.Stops.Set(uint(i))
		case m.IntN(5) > 0:
			d.Allowed.Set(uint(i))
		}
	}
	if last := len(m.p.Domains) - 1; last >= 0 && !m.apart && !m.shares && d.Stops == nil && m.IntN(3) == 0 {
		d.Allowed = m.p.Domains[last].Allowed
	}
	if m.shares {
		d.Shares = make([][]solver.Draw, n)
		for i, resources := range capacities {
			for _, r := range resources {
				d.Shares[i] = append(d.Shares[i], solver.Draw{Resource: r, Amount: units(m.IntN(5))})
			}
		}
	}
	if m.sums && m.IntN(3) > 0 {
		d.Gives = make([][]amount.Amount, 1+m.IntN(2))
		for k := range d.Gives {
			for range n {
				d.Gives[k] = append(d.Gives[k], units(m.IntN(5)))
			}
		}
		if m.fills && m.shares {
			m.fill(&d, capacities)
		}
	}
	for _, r := range relations {
		if m.gangs || m.IntN(3) > 0 {
			d.Covers = append(d.Covers, m.cover(r))
		}
	}
	return d
}

// fill has shares of most devices take what is missing of totals, each total of another resource.
func (m *maker) fill(d *solver.Domain, capacities [][]int32) {
	for k := range d.Gives {
		d.Fills = append(d.Fills, make([]solver.Fill, len(m.p.Devices)))
		for i, resources := range capacities {
			if k >= len(resources) || m.IntN(5) == 0 {
				continue
			}
			d.Fills[k][i] = solver.Fill{Resource: resources[k], Step: units(1 + m.IntN(3))}
			if d.Gives[k][i] = m.p.Left[resources[k]]; m.IntN(3) > 0 {
				d.Shares[i][k].Amount = units(0)
			}
		}
	}
}

func (m *maker) cover(relation int) solver.Cover {
	c := solver.Cover{Relation: int32(relation)}
	if m.stops && m.IntN(5) == 0 {
		c.Stops = bitset.New(uint(len(m.p.Devices)))
	}
	// Domains mostly see the same values in a device.
	if m.IntN(4) > 0 {
		compares := relation
		if m.gangs {
			compares = int(m.p.Relations[relation].Kind)
		}
		if m.columns[compares] == nil {
			m.columns[compares] = m.column(relation)
		}
		c.Column = m.columns[compares]
	} else {
		c.Column = m.column(relation)
	}
	for i := range c.Values {
		if c.Stops != nil && m.IntN(5) == 0 {
			c.Stops.Set(uint(i))
		}
	}
	return c
}

func (m *maker) column(relation int) *solver.Column {
	c := &solver.Column{Values: make([][]int32, len(m.p.Devices))}
	most := 8 >> (m.IntN(4) / 3) // in some columns, many devices have no value
	for i := range c.Values {
		switch m.IntN(most) {
		case 0:
		case 1:
			c.Values[i] = []int32{}
		default:
			c.Values[i] = m.values(m.compared[relation])
		}
	}
	return c
}

func (m *maker) request(claim int, domains []int32) solver.Request {
	r := solver.Request{Claim: int32(claim), Off: m.IntN(12) == 0}
	options := 1
	if m.options {
		options = 1 + m.IntN(3)
	}
	admin := m.p.Domains[domains[m.IntN(len(domains))]].Admin
	for range options {
		var fitting []int32
		for _, d := range domains {
			if m.p.Domains[d].Admin == admin {
				fitting = append(fitting, d)
			}
		}
		r.Options = append(r.Options, m.option(fitting[m.IntN(len(fitting))]))
	}
	return r
}

func (m *maker) option(domain int32) solver.Option {
	o := solver.Option{Domain: domain, Count: 1 + m.IntN(3)}
	if m.IntN(15) == 0 {
		o.Count = 0
	}
	if gives := m.p.Domains[domain].Gives; gives != nil && o.Count > 0 && m.IntN(4) > 0 {
		for range gives {
			o.Totals = append(o.Totals, units(1+m.IntN(3*o.Count)))
		}
		return o
	}
	if !m.all || m.IntN(3) > 0 {
		return o
	}
	o.All = true
	d := &m.p.Domains[domain]
	if d.Stops != nil {
		o.All = false // a caller refuses to ask for all of what cannot be judged
		return o
	}
	o.Late = bitset.New(uint(len(m.p.Devices)))
	for i := range m.p.Devices {
		allowed := d.Allowed.Test(uint(i))
		if allowed || m.IntN(6) == 0 {
			o.Mandatory = append(o.Mandatory, int32(i))
			if !allowed && m.IntN(2) == 0 {
				o.Late.Set(uint(i))
			}
		}
	}
	if o.Count = len(o.Mandatory); o.Count > 3 && m.IntN(2) == 0 {
		// Fewer, so that some can be had.
		for _, i := range o.Mandatory[2:] {
			d.Allowed.Clear(uint(i))
		}
		o.Mandatory = o.Mandatory[:2]
		o.Count = 2
	}
	return o
}
