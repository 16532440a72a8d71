package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// support fails if a Match relation has no value left with which all openings that it covers
// can be served. In a solution all their devices have one value in common; a device that has none is
// only admitted by itself.
type support struct {
	relation int32
	// values are those that may serve, last the position of the one that did when last looked for.
	values []int32
	last   int
}

func newSupport(s *search, relation int32) *support {
	t := &support{relation: relation, values: s.memory.counts.Take(s.values(relation))}
	for v := range t.values {
		t.values[v] = int32(v)
	}
	return t
}

// values is how many values there are of what a relation compares.
func (s *search) values(relation int32) (n int) {
	for k := range s.p.Domains {
		if c := s.p.Domains[k].covers(relation); c != nil {
			n = max(n, c.count())
		}
	}
	return n
}

// needsValue are the openings that a relation covers, nil if they have one slot: for that, any viable device
// will do.
func (t *support) needsValue(s *search, open []opening) []opening {
	some := s.covered(open, t.relation)
	if len(some) == 0 || len(some) == 1 && some[0].slots == 1 {
		return nil
	}
	return some
}

func (t *support) fails(s *search, open []opening) ([]opening, bool) {
	some := t.needsValue(s, open)
	if some == nil {
		return nil, false
	}
	serves := func(v int32) bool {
		s.look(1)
		return t.serves(s, some, v)
	}
	if state := s.related[t.relation]; state.devices > 0 {
		return some, !slices.ContainsFunc(state.values, serves)
	}
	for n := range t.values {
		if at := (t.last + n) % len(t.values); serves(t.values[at]) {
			t.last = at
			return nil, false
		}
	}
	return some, true
}

// serves reports whether openings can be served with devices that offer a value.
func (t *support) serves(s *search, open []opening, v int32) bool {
	a := s.ahead
	used, possible := a.used, len(a.possible)
	defer func() { a.used, a.possible = used, a.possible[:possible] }()
	a.served = a.served[:0]
	for k := range open {
		o := open[k]
		for _, option := range o.options {
			t.narrow(s, option.Domain, v)
		}
		if len(o.options) == 1 {
			o.viable = a.offering[o.options[0].Domain]
			a.served = append(a.served, o)
		} else {
			a.served = s.addOpening(a.served, o.request, a.offering)
		}
		if last := len(a.served) - 1; last >= 0 && a.served[last].count() < a.served[last].slots {
			return false
		}
	}
	s.look(len(open))
	_, fails := assignment{}.fails(s, a.served)
	return !fails
}

// narrow finds the viable devices of a domain that offer a value.
func (t *support) narrow(s *search, domain, v int32) {
	viable, offering := s.ahead.viable[domain], s.ahead.offering[domain].ClearAll()
	for _, i := range s.p.Domains[domain].covers(t.relation).having(v) {
		offering.SetTo(uint(i), viable.Test(uint(i)))
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
	some := t.needsValue(s, open)
	if some == nil {
		return
	}
	offered := t.offered(s, some)
	// What does not serve here does not serve below either.
	t.values = slices.DeleteFunc(t.values, func(v int32) bool { return !offered.Test(uint(v)) || !t.serves(s, some, v) })
	for k, viable := range s.ahead.viable {
		c := s.p.Domains[k].covers(t.relation)
		if c == nil {
			continue
		}
		keep := s.ahead.offering[k].ClearAll()
		for _, v := range t.values {
			for _, i := range c.having(v) {
				keep.Set(uint(i))
			}
		}
		viable.InPlaceIntersection(keep)
	}
}

// offered are the values of the opening with the fewest viable devices.
func (t *support) offered(s *search, open []opening) *bitset.BitSet {
	fewest := slices.MinFunc(open, func(a, b opening) int { return a.count() - b.count() })
	values := s.memory.sets.New(len(t.values))
	for _, option := range fewest.options {
		c := s.p.Domains[option.Domain].covers(t.relation)
		for i, ok := fewest.viable.NextSet(0); ok; i, ok = fewest.viable.NextSet(i + 1) {
			for _, v := range c.Values[i] {
				values.Set(uint(v))
			}
		}
	}
	return values
}
