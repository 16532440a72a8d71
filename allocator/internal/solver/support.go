package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// support fails if a Match relation has no value left with which all openings that it covers
// can be served. In a solution they all have one value in common.
type support struct {
	relation int32
	// domains are those that take part, holders the devices that offer a value, by value and
	// position in domains, of values that can serve.
	domains []int32
	// at is the position of the first set of holders, counted from 1, by value. 0 is none.
	at      []int32
	holders []*bitset.BitSet
	values  []int32 // that have holders
	// last is the position of the value that served when last looked for.
	last int
}

// newSupport is nil for a relation with devices that stand alone.
func newSupport(s *search, relation int32) *support {
	r := &s.p.Relations[relation]
	t := &support{relation: relation, domains: s.memory.counts.Empty(len(s.p.Domains)), at: s.memory.counts.Take(int(r.Values))}
	counts := s.memory.counts.Take(int(r.Values))
	for k := range s.p.Domains {
		c := s.p.Domains[k].covers(relation)
		if c == nil || !s.ahead.wanted[k] {
			continue
		}
		for i, ok := s.p.Domains[k].Allowed.NextSet(0); ok; i, ok = s.p.Domains[k].Allowed.NextSet(i + 1) {
			if c.Values[i] != nil && len(c.Values[i]) == 0 {
				return nil
			}
			for _, v := range c.Values[i] {
				// Each domain counts once.
				if counts[v] == int32(len(t.domains)) {
					counts[v]++
				}
			}
		}
		t.domains = append(t.domains, int32(k))
	}
	if len(t.domains) == 0 {
		return nil
	}
	t.hold(s, counts)
	return t
}

func (t *support) hold(s *search, counts []int32) {
	// What only some domains offer serves if others are not picked, or if the search ends
	// before they are needed.
	some := s.lastStop > 0 || slices.ContainsFunc(s.p.Requests, func(r Request) bool { return len(r.Options) > 1 })
	for n, k := range t.domains {
		values := s.p.Domains[k].covers(t.relation).Values
		allowed := s.p.Domains[k].Allowed
		for i, ok := allowed.NextSet(0); ok; i, ok = allowed.NextSet(i + 1) {
			for _, v := range values[i] {
				if some || counts[v] == int32(len(t.domains)) {
					t.holding(s, v, n).Set(i)
				}
			}
		}
	}
	slices.Sort(t.values)
}

// holding is held for a domain by position, and makes sets for a value that has none.
func (t *support) holding(s *search, v int32, n int) *bitset.BitSet {
	if t.at[v] == 0 {
		t.at[v] = int32(len(t.holders)) + 1
		t.values = append(t.values, v)
		for range t.domains {
			t.holders = append(t.holders, s.memory.sets.New(len(s.p.Devices)))
		}
	}
	return t.holders[int(t.at[v])-1+n]
}

// held are the devices of a domain that offer a value.
func (t *support) held(v, domain int32) *bitset.BitSet {
	return t.holders[int(t.at[v])-1+slices.Index(t.domains, domain)]
}

func (t *support) fails(s *search, open []opening) ([]opening, bool) {
	some := s.covered(open, t.relation)
	if len(some) == 0 || t.supported(s, some) {
		return nil, false
	}
	return some, true
}

func (t *support) supported(s *search, open []opening) bool {
	state := s.related[t.relation]
	if state.devices > 0 {
		return slices.ContainsFunc(state.values, func(v int32) bool { return t.serves(s, open, v) })
	}
	for n := range t.values {
		if at := (t.last + n) % len(t.values); t.serves(s, open, t.values[at]) {
			t.last = at
			return true
		}
	}
	return false
}

// serves reports whether openings can be served with devices that offer a value.
func (t *support) serves(s *search, open []opening, v int32) bool {
	if t.at[v] == 0 {
		return false
	}
	offers := s.ahead.offers[:0]
	defer func() { s.ahead.offers = offers }()
	alike := 0 // slots of openings that are the same
	for k := range open {
		if k > 0 && s.sameOpening(&open[k-1], &open[k]) {
			offers = append(offers, offers[k-1])
			if alike += open[k].slots; !s.ahead.shareable && alike > offers[k].devices {
				return false
			}
			continue
		}
		s.look(1)
		o, ok := t.offered(s, &open[k], v)
		if !ok {
			return false
		}
		offers, alike = append(offers, o), o.slots
	}
	return !s.competing(offers) || !t.contended(s, open, v)
}

// sameOpening reports whether two openings have one option each, the same one.
func (s *search) sameOpening(a, b *opening) bool {
	if len(a.options) != 1 || len(b.options) != 1 || a.from != b.from {
		return false
	}
	p, q := &s.p.Requests[a.request].Options[a.options[0]], &s.p.Requests[b.request].Options[b.options[0]]
	return p.Domain == q.Domain && p.Count == q.Count
}

// offer is how many slots an opening has, and how many devices for them.
type offer struct{ slots, devices int }

// offered tells what an opening has of a value, if any option can be served with it.
func (t *support) offered(s *search, o *opening, v int32) (offer, bool) {
	best, found := offer{}, false
	for _, option := range o.options {
		domain := s.p.Requests[o.request].Options[option].Domain
		devices := int(t.held(v, domain).IntersectionCardinality(s.ahead.viable[domain]))
		if o.from > 0 {
			devices = s.countFrom(t.held(v, domain), s.ahead.viable[domain], o.from)
		}
		needed := s.needed(o, option)
		if devices < needed {
			continue
		}
		if !found || needed < best.slots {
			best.slots = needed
		}
		best.devices, found = max(best.devices, devices), true
	}
	return best, found
}

// needed is how many slots of an opening an option has.
func (s *search) needed(o *opening, option int32) int {
	if o.rest {
		return o.slots // some are filled
	}
	return s.p.Requests[o.request].Options[option].Count
}

func (s *search) countFrom(a, b *bitset.BitSet, from uint) (count int) {
	for i, ok := a.NextSet(from); ok; i, ok = a.NextSet(i + 1) {
		if b.Test(i) {
			count++
		}
	}
	return count
}

// competing reports whether devices may run out. They do not if even one opening after the
// other, from that with the fewest devices, finds enough left.
func (s *search) competing(offers []offer) bool {
	slices.SortFunc(offers, func(a, b offer) int { return a.devices - b.devices })
	slots := 0
	for _, each := range offers {
		if slots += each.slots; slots > each.devices {
			return true
		}
	}
	return len(s.ahead.bins.list) > 0 && len(offers) > 1
}

// contended tries a flow of openings with devices that offer a value.
func (t *support) contended(s *search, open []opening, v int32) bool {
	a := s.ahead
	mark := a.used
	a.narrowed = append(a.narrowed[:0], open...)
	narrowed := a.narrowed
	for k := range narrowed {
		o := &narrowed[k]
		viable, slots := s.union(), 0
		for n, option := range o.options {
			domain := s.p.Requests[o.request].Options[option].Domain
			a.spare.ClearAll()
			a.spare.InPlaceUnion(t.held(v, domain))
			a.spare.InPlaceIntersection(a.viable[domain])
			if needed := s.needed(o, option); n == 0 || needed < slots {
				slots = needed
			}
			viable.InPlaceUnion(a.spare)
		}
		o.viable, o.slots = viable, slots
	}
	unassignable := s.unassignable // devices of one claim differ
	of := s.p.Requests[narrowed[0].request].Claim
	if slices.ContainsFunc(narrowed, func(o opening) bool { return s.p.Requests[o.request].Claim != of }) {
		unassignable = s.unassignableByClaim
	}
	_, fails := unassignable(narrowed, false)
	a.used = mark
	return fails
}

// dropUnsupported takes out, before the first decision, candidates that offer no value with which
// everything that must match could be served.
func (s *search) dropUnsupported() {
	for range maxDrops {
		open, dropped := s.openings(-1, 0, 0, 0), false
		if _, fails := (counting{}).fails(s, open); fails {
			return
		}
		for _, p := range s.ahead.propagators {
			if t, ok := p.(*support); ok {
				dropped = t.drop(s, open) || dropped
			}
		}
		if !dropped {
			return
		}
	}
}

// maxDrops is how often what was taken out may lead to more.
const maxDrops = 4

func (t *support) drop(s *search, open []opening) bool {
	some := s.covered(open, t.relation)
	if len(some) == 0 || s.related[t.relation].devices > 0 {
		return false
	}
	keep := make([]*bitset.BitSet, len(t.domains))
	for n := range keep {
		keep[n] = s.memory.sets.New(len(s.p.Devices))
	}
	// A value that serves no more at the root does not serve below.
	t.values = slices.DeleteFunc(t.values, func(v int32) bool { return !t.serves(s, some, v) })
	for _, v := range t.values {
		for n := range keep {
			keep[n].InPlaceUnion(t.holding(s, v, n))
		}
	}
	dropped := false
	for n, domain := range t.domains {
		viable := s.ahead.viable[domain]
		before := viable.Count()
		viable.InPlaceIntersection(keep[n])
		dropped = dropped || viable.Count() < before
	}
	return dropped
}
