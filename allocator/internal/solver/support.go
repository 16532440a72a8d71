package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// support fails if a Match relation has no value left with which all openings that it covers
// can be served. In a solution they all have one value in common.
type support struct {
	relation int32
	// offering are the devices that offer a value, by value. Nil for those that cannot serve.
	offering []*bitset.BitSet
	// domains are those that take part. viable is room for the viable devices that offer a value,
	// by domain, of which those of the current round are up to date.
	domains []int32
	viable  []*bitset.BitSet
	rounds  []int32
	round   int32
	open    []opening // room for what these devices serve
	// last is the value that served when last looked for.
	last int
}

// newSupport is nil for a relation with devices that stand alone.
func newSupport(s *search, relation int32) *support {
	t := &support{
		relation: relation, domains: s.memory.counts.Empty(len(s.p.Domains)), offering: s.memory.setLists.Take(int(s.p.Relations[relation].Values)),
		viable: s.memory.setLists.Take(len(s.p.Domains)), open: s.memory.openings.Empty(len(s.p.Requests)), rounds: s.memory.counts.Take(len(s.p.Domains)),
	}
	for k := range s.p.Domains {
		c := s.p.Domains[k].covers(relation)
		if t.viable[k] = s.ahead.viable[k]; c == nil {
			continue
		}
		t.domains, t.viable[k] = append(t.domains, int32(k)), s.memory.sets.New(len(s.p.Devices))
		for i, ok := s.p.Domains[k].Allowed.NextSet(0); ok; i, ok = s.p.Domains[k].Allowed.NextSet(i + 1) {
			if c.Values[i] != nil && len(c.Values[i]) == 0 {
				return nil
			}
			for _, v := range c.Values[i] {
				if t.offering[v] == nil {
					t.offering[v] = s.memory.sets.New(len(s.p.Devices))
				}
				t.offering[v].Set(i)
			}
		}
	}
	t.dropLone(s)
	return t
}

// dropLone drops values that only some of the domains offer that requests want. They serve if others
// are not picked, or if the search ends before they are needed.
func (t *support) dropLone(s *search) {
	if s.lastStop > 0 || slices.ContainsFunc(s.p.Requests, func(r Request) bool { return len(r.Options) > 1 }) {
		return
	}
	for _, r := range s.p.Requests {
		for _, option := range r.Options {
			domain := &s.p.Domains[option.Domain]
			if r.Off || option.Count == 0 || domain.covers(t.relation) == nil {
				continue
			}
			for v, offering := range t.offering {
				if offering != nil && offering.IntersectionCardinality(domain.Allowed) == 0 {
					t.offering[v] = nil
				}
			}
		}
	}
}

func (t *support) fails(s *search, open []opening) ([]opening, bool) {
	some := s.covered(open, t.relation)
	if len(some) == 0 {
		return nil, false
	}
	if state := s.related[t.relation]; state.devices > 0 {
		return some, !slices.ContainsFunc(state.values, func(v int32) bool { return t.serves(s, some, v) })
	}
	for n := range t.offering {
		if v := (t.last + n) % len(t.offering); t.serves(s, some, int32(v)) {
			t.last = v
			return nil, false
		}
	}
	return some, true
}

// serves reports whether openings can be served with devices that offer a value.
func (t *support) serves(s *search, open []opening, v int32) bool {
	if t.offering[v] == nil {
		return false
	}
	a := s.ahead
	used, possible := a.used, len(a.possible)
	defer func() { a.used, a.possible = used, a.possible[:possible] }()
	t.open = t.open[:0]
	t.round++
	for k := range open {
		o := open[k]
		for _, option := range o.options {
			t.narrow(s, s.domain(&o, option), v)
		}
		if len(o.options) == 1 {
			o.viable = t.viable[s.domain(&o, o.options[0])]
			t.open = append(t.open, o)
		} else {
			t.open = s.addOpening(t.open, o.request, t.viable)
		}
		if last := len(t.open) - 1; last >= 0 && t.open[last].count() < t.open[last].slots {
			return false
		}
	}
	if _, fails := (counting{}).fails(s, t.open); fails {
		return false
	}
	_, fails := assignment{}.fails(s, t.open)
	return !fails
}

// narrow finds the viable devices of a domain that offer a value.
func (t *support) narrow(s *search, domain, v int32) {
	if t.rounds[domain] != t.round {
		s.look(1)
		t.rounds[domain] = t.round
		copy(t.viable[domain].Words(), s.ahead.viable[domain].Words())
		t.viable[domain].InPlaceIntersection(t.offering[v])
	}
}

// dropUnsupported takes out, before the first decision, candidates that offer no value with which
// everything that must match could be served.
func (s *search) dropUnsupported() {
	open := s.openings(-1, 0, 0, 0)
	for _, p := range s.ahead.propagators {
		if t, ok := p.(*support); ok {
			t.drop(s, open)
		}
	}
}

func (t *support) drop(s *search, open []opening) {
	some := s.covered(open, t.relation)
	if len(some) == 0 || s.related[t.relation].devices > 0 {
		return
	}
	keep := s.memory.sets.New(len(s.p.Devices))
	for v := range t.offering {
		if t.serves(s, some, int32(v)) {
			keep.InPlaceUnion(t.offering[v])
		} else {
			t.offering[v] = nil // it does not serve below either
		}
	}
	for _, domain := range t.domains {
		s.ahead.viable[domain].InPlaceIntersection(keep)
	}
}
