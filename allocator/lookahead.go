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
	slots        int
	viable       *bitset.BitSet
}

// starved reports whether the requests after slot n of an alternative, whose next
// device would be start or later, can no longer all be served; s.conflict then says
// why.
func (s *search) starved(alt *alternative, n int, start uint) bool {
	if !s.wary {
		return false
	}
	open := s.openings(alt, n, start)
	for i := range open {
		if open[i].viable.Count() < uint(open[i].slots) {
			s.blameOpenings(open[i:i+1], alt, n)
			return true
		}
	}
	return s.unmatched(open, alt, n)
}

// openings lists what is open, beginning with the rest of the alternative itself. Without
// an alternative, that is everything.
func (s *search) openings(alt *alternative, n int, start uint) []opening {
	var open []opening
	c, r := 0, 0
	if alt != nil {
		c, r = alt.claim, alt.request+1
		if b := &s.in.alternatives[alt.id]; n < b.needed {
			open = append(open, opening{[]*alternative{alt}, b.needed - n, s.viable(alt, start)})
		}
	}
	for ; c < len(s.in.problem.claims); c, r = c+1, 0 {
		requests := s.in.problem.claims[c].requests
		for ; r < len(requests); r++ {
			if !s.omitted.request(c, r) {
				open = s.appendOpening(open, &requests[r])
			}
		}
	}
	return open
}

// appendOpening adds a request. A prioritized one takes at least as many devices as its
// smallest alternative, from those of all.
func (s *search) appendOpening(open []opening, r *request) []opening {
	first := r.alternatives[0]
	o := opening{alternatives: r.alternatives, slots: s.in.alternatives[first.id].needed}
	if !r.prioritized {
		if o.viable = viableAlready(open, first); o.viable == nil {
			o.viable = s.viable(first, 0)
		}
	} else {
		o.viable = bitset.New(uint(len(s.in.devices)))
		for _, alt := range r.alternatives {
			o.slots = min(o.slots, s.in.alternatives[alt.id].needed)
			o.viable.InPlaceUnion(s.viable(alt, 0))
		}
	}
	if o.slots == 0 {
		return open
	}
	return append(open, o)
}

// viableAlready finds the devices for a request among those of requests that ask for the
// same. Requests by the dozen often do.
func viableAlready(open []opening, alt *alternative) *bitset.BitSet {
	for i := len(open) - 1; i > 0; i-- { // the first may be a rest, from a position on
		other := open[i].alternatives[0]
		if len(open[i].alternatives) == 1 && alt.claim == other.claim && alt.filter == other.filter &&
			slices.Equal(alt.constraints, other.constraints) && len(alt.derived)+len(other.derived) == 0 {
			return open[i].viable
		}
	}
	return nil
}

// lookAheadRate is how many devices a look ahead checks for the price of a step.
const lookAheadRate = 16

// viable are the candidates of an alternative from position start on that nothing
// stands against now.
func (s *search) viable(alt *alternative, start uint) *bitset.BitSet {
	b := &s.in.alternatives[alt.id]
	viable := bitset.New(uint(len(s.in.devices)))
	checked := 0
	for i, ok := b.domain.allowed.NextSet(start); ok; i, ok = b.domain.allowed.NextSet(i + 1) {
		if why, _ := s.refusal(alt, b, int32(i)); why == accepted {
			viable.Set(i)
		}
		checked++
	}
	s.stats.Steps += int64(checked / lookAheadRate)
	return viable
}

// blameOpenings sets s.conflict to all decisions because of which devices are not
// viable for the openings.
func (s *search) blameOpenings(open []opening, alt *alternative, n int) {
	s.conflict.clear()
	for _, o := range open {
		for _, a := range o.alternatives {
			b := &s.in.alternatives[a.id]
			for i, ok := b.domain.allowed.NextSet(0); ok; i, ok = b.domain.allowed.NextSet(i + 1) {
				if why, k := s.refusal(a, b, int32(i)); why != accepted {
					s.blame(&s.conflict, a, int32(i), why, k)
				}
			}
		}
		if o.alternatives[0] == alt {
			s.blameSlot(&s.conflict, alt, n)
		}
	}
}
