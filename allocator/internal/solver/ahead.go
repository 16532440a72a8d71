package solver

import (
	"math/bits"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// ahead is what a search works with once it has come to a dead end: the devices that are still
// viable in each domain, and what the propagators need.
type ahead struct {
	// viable are the candidates by domain that nothing stands against. A refusal is for
	// good, so they only become fewer on the way down.
	viable []*bitset.BitSet
	// related are, by domain, the domains that take part in a relation with it.
	related [][]int32
	// rivals are, by device, those that draw on the same resources. Nil until needed.
	rivals []*bitset.BitSet
	// needed is room for a set of resources, unions and spare for sets of devices.
	needed, spare *bitset.BitSet
	unions        []*bitset.BitSet
	used          int
	open          []opening
	possible      []int32
	propagators   []propagator
	flow          flow
	bins          *Bins
	// room is that in each bin. covered, narrowed and offers are lists to work with.
	room              []int32
	covered, narrowed []opening
	offers            []offer
	giving            []amount.Amount
	// wanted are the domains of requests that are not taken out.
	wanted []bool
	// seen is room for a flag by domain.
	seen []bool
	// shareable is set if any device is.
	shareable bool
	classes   []int32 // by device, nil until needed
}

// propagator finds out that the open requests cannot all be served. It may only look at what
// is open: what comes after may never be reached.
type propagator interface {
	// fails reports whether it can be excluded that all openings are served, and if so
	// which of them stand in each other's way.
	fails(s *search, open []opening) ([]opening, bool)
}

// lookAhead prepares for a search that looks ahead, from its root.
func (s *search) lookAhead() {
	a := &s.room
	a.begin(s)
	s.ahead = a
	for d := range s.p.Domains {
		a.viable[d] = s.memory.sets.Clone(s.p.Domains[d].Allowed)
	}
	a.relate(s)
	a.want(s)
	a.shareable = slices.ContainsFunc(s.p.Devices, func(d Device) bool { return d.Shareable })
	a.flow.prepare(s)
	if s.p.Bins != nil {
		a.bins = s.p.Bins()
	} else {
		a.bins = NewBins(s.p.Devices, s.p.SetOf)
	}
	a.room = s.memory.counts.Take(len(a.bins.list))
	s.addPropagators()
	for d := range s.p.Domains {
		s.recheck(int32(d), a.viable[d])
	}
	if s.rules&RuleRootSupport != 0 && s.lastStop == 0 {
		s.dropUnsupported()
	}
}

// begin is before anything is known of a problem.
func (a *ahead) begin(s *search) {
	devices := len(s.p.Devices)
	a.viable = a.viable[:0]
	for range s.p.Domains {
		a.viable = append(a.viable, nil)
	}
	a.needed, a.spare = s.memory.sets.New(len(s.p.Left)), s.memory.sets.New(devices)
	a.unions, a.used = a.unions[:0], 0
	a.rivals, a.classes = nil, nil
}

// release drops what belongs to a problem.
func (a *ahead) release() {
	if a == nil {
		return
	}
	clear(a.viable)
	clear(a.unions)
	clear(a.propagators)
	clear(a.open[:cap(a.open)])
	a.rivals, a.classes, a.bins, a.room = nil, nil, nil, nil
	clear(a.covered[:cap(a.covered)])
	clear(a.narrowed[:cap(a.narrowed)])
	a.needed, a.spare = nil, nil
	a.flow.release()
}

// addPropagators is the register of propagators: a new kind is one line here.
func (s *search) addPropagators() {
	list := append(s.ahead.propagators[:0], counting{})
	if s.rules&RuleFlow != 0 {
		list = append(list, assignment{})
	}
	if s.rules&RuleCumulative != 0 {
		list = append(list, s.newCumulatives()...)
	}
	if s.rules&RuleSums != 0 && s.p.hasTotals() {
		list = append(list, sums{})
	}
	for r := range s.p.Relations {
		switch relation := &s.p.Relations[r]; {
		case relation.Off:
		case relation.Kind == Distinct && s.rules&RuleDistinct != 0:
			if d := newDistinct(s, int32(r)); d != nil {
				list = append(list, d)
			}
		case relation.Kind == Match && s.rules&RuleSupport != 0:
			if m := newSupport(s, int32(r)); m != nil {
				list = append(list, m)
			}
		}
	}
	s.ahead.propagators = list
}

func (a *ahead) want(s *search) {
	a.wanted, a.seen = s.memory.flags.Take(len(s.p.Domains)), s.memory.flags.Take(len(s.p.Domains))
	for p := range s.p.Requests {
		for _, o := range s.p.Requests[p].Options {
			a.wanted[o.Domain] = a.wanted[o.Domain] || !s.p.Requests[p].Off && o.Count > 0
		}
	}
}

func (a *ahead) relate(s *search) {
	a.related = s.memory.lists.Take(len(s.p.Domains))
	for d := range s.p.Domains {
		a.related[d] = s.memory.counts.Empty(len(s.p.Domains))
		for other := range s.p.Domains {
			if slices.ContainsFunc(s.p.Domains[d].Covers, func(c Cover) bool {
				return !s.p.Relations[c.Relation].Off && s.p.Domains[other].covers(c.Relation) != nil
			}) {
				a.related[d] = append(a.related[d], int32(other))
			}
		}
	}
}

// narrow takes out of all domains what a choice that was just made stands against.
func (s *search) narrow(domain, device int32, paid bool) {
	a := s.ahead
	for _, other := range a.related[domain] {
		s.recheck(other, a.viable[other])
	}
	for other := range a.viable {
		viable := a.viable[other]
		if slices.Contains(a.related[domain], int32(other)) {
			continue
		}
		if paid {
			a.spare.ClearAll()
			a.spare.InPlaceUnion(viable)
			a.spare.InPlaceIntersection(s.rivalsOf(device))
			s.recheck(int32(other), a.spare)
		}
		if viable.Test(uint(device)) {
			s.recheckDevice(int32(other), device)
		}
	}
}

// rivalsOf are the devices that draw on a resource on which a device draws.
func (s *search) rivalsOf(device int32) *bitset.BitSet {
	a := s.ahead
	if a.rivals == nil {
		a.rivals = make([]*bitset.BitSet, len(s.p.Devices))
	}
	if a.rivals[device] == nil {
		rivals := s.memory.sets.New(len(s.p.Devices))
		for i := range s.p.Devices {
			if s.competes(device, int32(i)) {
				rivals.Set(uint(i))
			}
		}
		a.rivals[device] = rivals
	}
	return a.rivals[device]
}

// recheck checks devices of a domain, which may be all that are viable.
func (s *search) recheck(domain int32, devices *bitset.BitSet) {
	for i, ok := devices.NextSet(0); ok; i, ok = devices.NextSet(i + 1) {
		s.recheckDevice(domain, int32(i))
	}
}

// recheckDevice keeps devices at which looking ends the search: they do not fail.
func (s *search) recheckDevice(domain, i int32) {
	s.look(1)
	s.stats.Checks++
	if why, _ := s.refuses(&s.p.Domains[domain], i); why != accepted && why != refusedStop {
		words := s.ahead.viable[domain].Words()
		s.words.set(&words[i/64], words[i/64]&^(1<<(i%64)))
	}
}

// rechecksPerStep is how many devices are checked ahead for the price of a step.
const rechecksPerStep = 16

func (s *search) look(rechecks int) {
	s.rechecks += int64(rechecks)
	s.stats.Steps += s.rechecks / rechecksPerStep
	s.rechecks %= rechecksPerStep
}

// opening is a request that is still to be decided, wholly or in part: how many devices it
// needs at least, and which are viable for it now. It takes a device at most once.
type opening struct {
	request int32
	// options are those that can still be picked. If none can, there is one slot and no
	// viable device.
	options []int32
	slots   int
	viable  *bitset.BitSet
	// from is the first device that may be taken.
	from uint
	// rest is set for the request that is being decided.
	rest bool
}

func (o *opening) count() int {
	n := o.viable.Count()
	if o.from > 0 {
		n -= o.viable.Rank(o.from - 1)
	}
	return int(n)
}

// nextIn is the next viable device that is in a set as well, nextOutside the next that is not.
// The sets are as large as viable.
func (o *opening) nextIn(set *bitset.BitSet, i uint) (uint, bool) {
	return o.search(set, 0, i)
}

func (o *opening) nextOutside(set *bitset.BitSet, i uint) (uint, bool) {
	return o.search(set, ^uint64(0), i)
}

// search looks at the words of a set, with their bits turned over by flip.
func (o *opening) search(set *bitset.BitSet, flip uint64, i uint) (uint, bool) {
	i = max(i, o.from)
	viable, others := o.viable.Words(), set.Words()
	mask := ^uint64(0) << (i % 64)
	for w := int(i / 64); w < len(viable); w++ {
		if word := viable[w] & (others[w] ^ flip) & mask; word != 0 {
			return uint(64*w + bits.TrailingZeros64(word)), true
		}
		mask = ^uint64(0)
	}
	return 0, false
}

func (o *opening) has(i uint) bool { return i >= o.from && o.viable.Test(i) }

// starved reports whether what is open cannot be served any more, after n devices of an option
// of request p, of which the next one would be at position start or later. Before the first request, p is
// -1. Then conflict says why.
func (s *search) starved(p, o int32, n int, start uint) bool {
	if s.ahead == nil {
		return false
	}
	open := s.openings(p, o, n, start)
	if len(open) == 0 {
		return false
	}
	for _, propagator := range s.ahead.propagators {
		if some, fails := propagator.fails(s, open); fails {
			if s.depth == 0 {
				s.conflict = s.conflict[:0] // nothing is decided yet
			} else {
				s.blameOpenings(some, n)
			}
			return true
		}
	}
	return false
}

// openings lists what is open up to the next request at which looking can end the search.
func (s *search) openings(p, o int32, n int, start uint) []opening {
	a := s.ahead
	a.open, a.possible, a.used = a.open[:0], a.possible[:0], 0
	if p >= 0 && n < s.p.Requests[p].Options[o].Count {
		if s.mayStop[p] {
			return nil
		}
		option := &s.p.Requests[p].Options[o]
		a.possible = append(a.possible, o)
		rest := opening{
			request: p, options: a.possible[:1:1], slots: option.Count - n, viable: a.viable[option.Domain], from: start, rest: true,
		}
		if order := s.p.Domains[option.Domain].Order; order != nil {
			rest.viable, rest.from = s.union(), 0
			for _, i := range order[start:] {
				rest.viable.SetTo(uint(i), a.viable[option.Domain].Test(uint(i)))
			}
		}
		a.open = append(a.open, rest)
	}
	for q := p + 1; int(q) < len(s.p.Requests) && !s.mayStop[q]; q++ {
		if !s.p.Requests[q].Off {
			s.addOpening(q)
		}
	}
	return a.open
}

// addOpening adds a request: it needs at least as many devices as its smallest option, of those
// of all.
func (s *search) addOpening(q int32) {
	a, options := s.ahead, s.p.Requests[q].Options
	first := len(a.possible)
	slots := 0
	for o := range options {
		option := &options[o]
		if option.All && option.Count == 0 || a.viable[option.Domain].Count() < uint(option.Count) {
			continue
		}
		if len(a.possible) == first || option.Count < slots {
			slots = option.Count
		}
		a.possible = append(a.possible, int32(o))
	}
	possible := a.possible[first:len(a.possible):len(a.possible)]
	switch {
	case len(possible) == 0:
		a.open = append(a.open, opening{request: q, options: s.allOptions(q), slots: 1, viable: s.union()})
	case slots == 0:
	case len(possible) == 1:
		a.open = append(a.open, opening{request: q, options: possible, slots: slots, viable: a.viable[options[possible[0]].Domain]})
	default:
		viable := s.union()
		for _, o := range possible {
			viable.InPlaceUnion(a.viable[options[o].Domain])
		}
		a.open = append(a.open, opening{request: q, options: possible, slots: slots, viable: viable})
	}
}

func (s *search) allOptions(q int32) []int32 {
	all := s.memory.counts.Take(len(s.p.Requests[q].Options))
	for o := range all {
		all[o] = int32(o)
	}
	return all
}

// union is an empty set, good until the openings are listed anew.
func (s *search) union() *bitset.BitSet {
	a := s.ahead
	if a.used == len(a.unions) {
		a.unions = append(a.unions, s.memory.sets.New(len(s.p.Devices)))
	}
	set := a.unions[a.used]
	set.ClearAll()
	a.used++
	return set
}

// counting fails if an opening has fewer viable devices than slots, or if neighbours of one
// domain have together, where each device serves one of them. A domain for admin access is that
// of one claim, and devices differ within a claim.
type counting struct{}

func (counting) fails(s *search, open []opening) ([]opening, bool) {
	for k := range open {
		if open[k].count() < open[k].slots {
			return open[k : k+1], true
		}
	}
	if s.ahead.shareable {
		return nil, false
	}
	for k := 0; k < len(open); {
		end, slots := k+1, open[k].slots
		for end < len(open) && open[end].viable == open[k].viable {
			slots += open[end].slots
			end++
		}
		if end > k+1 && int(open[k].viable.Count()) < slots {
			return open[k:end], true
		}
		k = end
	}
	return nil, false
}
