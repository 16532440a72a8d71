package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// opening is a request that is still to be decided, wholly or in part: how many slots
// it has at least, and which devices could fill them now. Refusals are for good, so a
// device that could not does not come back further down. A request takes a device at
// most once, shared or not.
type opening struct {
	alternatives []*alternative
	// possible are those of them that can still be picked: an alternative with too few
	// viable devices cannot. If none can, there is a slot that no device is viable for.
	possible []*alternative
	position int
	slots    int
	viable   *bitset.BitSet
	// from is the first device that may be taken.
	from uint
	// party is to whom the devices that are not shared are one for all, in a matching.
	party int32
	// entry is set if the request may meet an error and this is what it needs before.
	entry bool
}

// reach is the last request at which an error would come before a failure of the opening.
func (o *opening) reach() int {
	if o.entry {
		return o.position - 1
	}
	return o.position
}

func (o *opening) count() int {
	n := o.viable.Count()
	if o.from > 0 {
		n -= o.viable.Rank(o.from - 1)
	}
	return int(n)
}

// next is the first viable device at a position or after it.
func (o *opening) next(i uint) (uint, bool) { return o.viable.NextSet(max(i, o.from)) }

func (o *opening) has(i uint) bool { return i >= o.from && o.viable.Test(i) }

// starved reports whether the requests after slot n of an alternative, whose next
// device would be start or later, can no longer all be served; s.conflict then says
// why.
func (s *search) starved(alt *alternative, n int, start uint) bool {
	if s.foresight == nil {
		return false
	}
	open := s.openings(alt, n, start)
	for i := range open {
		if open[i].count() < open[i].slots {
			s.blameOpenings(open[i:i+1], alt, n)
			return true
		}
	}
	return s.overfull(open, alt, n) || s.unmatched(open, alt, n) || s.unsupported(open, alt, n)
}

// openings lists what is open, beginning with the rest of the alternative itself. Without
// an alternative, that is everything. It ends with the first request at which an error can
// be met, of which only what comes before the error counts: what comes after may never be
// reached.
func (s *search) openings(alt *alternative, n int, start uint) []opening {
	f := s.foresight
	f.open, f.unions, f.possible = f.open[:0], f.unions[:0], f.possible[:0]
	position, from := 0, 0
	if alt != nil {
		from = f.position(alt)
		position = f.position(alt) + 1
		if b := &s.in.alternatives[alt.id]; n < b.needed {
			if s.errsBelow(alt, position-1) {
				return nil
			}
			rest := f.requests[position-1].alternatives[alt.index : alt.index+1]
			f.open = append(f.open, opening{alternatives: rest, possible: rest, position: position - 1, slots: b.needed - n, viable: f.demand(alt).viable, from: start})
		}
	}
	for ; position < len(f.requests); position++ {
		switch {
		case s.omits(position):
		case s.mayErrAt(position, from):
			if !f.focus.aside[position] {
				s.addEntry(position, from)
			}
			return f.open
		case !f.focus.aside[position]:
			s.addOpening(position)
		}
	}
	return f.open
}

// mayErrAt reports whether looking at devices for a request can be an error, in any way to go
// on from another one.
func (s *search) mayErrAt(position, from int) bool {
	return slices.ContainsFunc(s.foresight.requests[position].alternatives, func(alt *alternative) bool { return s.errsBelow(alt, from) })
}

// addOpening adds a request. A prioritized one takes at least as many devices as its
// smallest alternative, from those of all.
func (s *search) addOpening(position int) {
	f, r := s.foresight, s.foresight.requests[position]
	o := opening{alternatives: r.alternatives, position: position}
	under := s.floorOf(position)
	switch {
	case !r.prioritized && !s.nothing(r.alternatives[0]):
		o.possible = o.alternatives
		o.slots, o.viable = s.in.alternatives[r.alternatives[0].id].needed, f.demand(r.alternatives[0]).viable
		if under != nil {
			o.from = uint(under.device)
		}
	case under != nil:
		o.alternatives = r.alternatives[under.pick:]
		fallthrough
	default:
		s.uniteAlternatives(&o)
	}
	if o.slots > 0 {
		f.open = append(f.open, o)
	}
}

// impossible reports whether an alternative asks for all of no devices, or for more than are
// viable: as what is viable only shrinks, it cannot be picked below. Nor can a dead one.
func (s *search) impossible(alt *alternative) bool {
	return s.nothing(alt) || s.foresight.dead[alt.id] || int(s.foresight.demand(alt).viable.Count()) < s.in.alternatives[alt.id].needed
}

// nothing reports whether an alternative asks for all of no devices.
func (s *search) nothing(alt *alternative) bool {
	return alt.all && s.in.alternatives[alt.id].needed == 0
}

// uniteAlternatives leaves an opening a slot without devices if no alternative is possible.
func (s *search) uniteAlternatives(o *opening) {
	f := s.foresight
	o.slots, o.viable = 1, f.union(len(s.in.devices))
	mark := len(f.possible)
	first := true
	for _, alt := range o.alternatives {
		if s.impossible(alt) {
			continue
		}
		f.possible = append(f.possible, alt)
		needed := s.in.alternatives[alt.id].needed
		if first || needed < o.slots {
			o.slots, first = needed, false
		}
		o.viable.InPlaceUnion(f.demand(alt).viable)
	}
	o.possible = f.possible[mark:len(f.possible):len(f.possible)]
}

// neededBy is how many slots of an opening an alternative has.
func (s *search) neededBy(o *opening, alt *alternative) int {
	if len(o.possible) == 1 {
		return o.slots // some may be filled
	}
	return s.in.alternatives[alt.id].needed
}

// confine leaves an opening, for each demand, the devices of a set, and of its alternatives those
// that are possible with them.
func (s *search) confine(o *opening, to func(demand int32) *bitset.BitSet) {
	f := s.foresight
	viable, slots, mark := f.union(len(s.in.devices)), 1, len(f.possible)
	for _, alt := range o.possible {
		d, needed := f.demandOf[alt.id], s.neededBy(o, alt)
		f.scratch.ClearAll()
		f.scratch.InPlaceUnion(f.demands[d].viable)
		f.scratch.InPlaceIntersection(to(d))
		if int(f.scratch.Count()) < needed {
			continue
		}
		if len(f.possible) == mark || needed < slots {
			slots = needed
		}
		f.possible = append(f.possible, alt)
		viable.InPlaceUnion(f.scratch)
	}
	o.possible, o.viable, o.slots = f.possible[mark:len(f.possible):len(f.possible)], viable, slots
}

// addEntry adds what a request needs before it can meet an error: of the devices that all
// must be had, those up to the one at which there is an error. Another alternative needs a
// device to look at.
func (s *search) addEntry(position, from int) {
	f := s.foresight
	f.errorsAt.ClearAll()
	o := opening{alternatives: f.requests[position].alternatives, position: position, viable: f.union(len(s.in.devices)), entry: true}
	o.possible = o.alternatives
	for _, alt := range o.alternatives {
		slots := s.in.alternatives[alt.id].needed
		switch {
		case !s.errsBelow(alt, from):
			if s.impossible(alt) {
				continue
			}
			o.viable.InPlaceUnion(f.demand(alt).viable)
		case alt.all:
			slots = s.addUntilError(o.viable, alt, from)
		default:
			slots = s.addLooks(o.viable, alt)
		}
		if o.slots == 0 || slots < o.slots {
			o.slots = slots
		}
		if slots == 0 {
			return
		}
	}
	if o.slots > 0 {
		f.open = append(f.open, o)
	}
}

// addLooks adds the devices at which there can be an error, or which can be chosen, and
// returns that one is needed. None is if looking takes less than choosing: shares do not
// keep anybody from it, and a lack of counters only counts afterwards.
func (s *search) addLooks(to *bitset.BitSet, alt *alternative) (count int) {
	to.InPlaceUnion(s.foresight.demand(alt).viable)
	for i := range s.in.alternatives[alt.id].domain.bad {
		if s.in.devices[i].multiple || s.in.devices[i].ConsumesCounters {
			return 0
		}
		to.Set(uint(i))
	}
	return 1
}

// addUntilError adds the devices that must be free for an error to be met, and counts them.
func (s *search) addUntilError(to *bitset.BitSet, alt *alternative, from int) (count int) {
	mandatory := s.in.alternatives[alt.id].domain.mandatory
	for n, last := 0, s.firstError(alt, from); n <= last; n++ {
		// An error comes before a lack of capacity, but not before one of counters.
		if i := mandatory[n]; n < last || !s.in.devices[i].multiple || s.charges(i) {
			to.Set(uint(i))
			count++
			if n == last {
				s.foresight.errorsAt.Set(uint(i))
			}
		}
	}
	return count
}

// union is an empty set, good until the openings are listed anew.
func (f *foresight) union(devices int) *bitset.BitSet {
	n := len(f.unions)
	if n < cap(f.unions) {
		f.unions = f.unions[:n+1]
		if f.unions[n] != nil {
			f.unions[n].ClearAll()
			return f.unions[n]
		}
	} else {
		f.unions = append(f.unions, nil)
	}
	f.unions[n] = f.space.set(devices)
	return f.unions[n]
}
