package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// blamed is what has been blamed already while one conflict is made up.
type blamed struct {
	components, devices bitset.BitSet
	constraints         []claimConstraint
}

func (b *blamed) clear() {
	b.components.ClearAll()
	b.devices.ClearAll()
	b.constraints = b.constraints[:0]
}

// blame adds to a conflict the decisions which are behind a refusal.
func (s *search) blame(to *levels, alt *alternative, i int32, why refusal, k int) {
	switch why {
	case refusedTaken, refusedRoom:
		s.blameIf(to, func(c *choice) bool {
			return c.device == i && (!alt.admin || c.alt.claim == alt.claim || why == refusedRoom)
		})
	case refusedCounters:
		// A component's counters and groups are not told apart: that would rarely help.
		if component := s.foresight.componentOf[i]; !s.foresight.blamed.components.Test(uint(component)) {
			s.foresight.blamed.components.Set(uint(component))
			s.blameIf(to, func(c *choice) bool { return s.foresight.componentOf[c.device] == component })
		}
	case refusedConstraint:
		at := claimConstraint{alt.claim, alt.constraints[k]}
		if !slices.Contains(s.foresight.blamed.constraints, at) {
			s.foresight.blamed.constraints = append(s.foresight.blamed.constraints, at)
			s.blameConstraint(to, at.claim, at.position)
		}
	}
}

func (s *search) blameConstraint(to *levels, claim, position int) {
	s.blameIf(to, func(c *choice) bool { return c.alt.claim == claim && c.alt.covered(position) })
}

func (s *search) blameIf(to *levels, guilty func(*choice) bool) {
	for j := range s.chosen {
		if guilty(&s.chosen[j]) {
			to.add(s.chosen[j].level)
		}
	}
}

// blameAlternatives blames the picks of alternatives in a claim before a request: they
// decide how many devices there are.
func (s *search) blameAlternatives(to *levels, claim, request int) {
	for r := range request {
		if s.in.problem.claims[claim].requests[r].prioritized {
			to.add(s.pickedAt[claim][r])
		}
	}
}

// covered reports whether the constraint at a position covers the alternative.
func (alt *alternative) covered(position int) bool {
	return slices.Contains(alt.constraints, position)
}

// blameRefused adds to a conflict whatever stands against the candidates of an
// alternative from a position on.
func (s *search) blameRefused(to *levels, alt *alternative, from uint) {
	s.foresight.blamed.clear()
	s.blameNotViable(to, alt, from)
}

func (s *search) blameNotViable(to *levels, alt *alternative, from uint) {
	d := s.foresight.demand(alt)
	refused := &s.foresight.blamed.devices
	d.b.domain.allowed.CopyFull(refused)
	refused.InPlaceDifference(d.viable)
	for i, ok := refused.NextSet(from); ok; i, ok = refused.NextSet(i + 1) {
		if why, k := s.refusal(alt, d.b, int32(i)); why != accepted {
			s.blame(to, alt, int32(i), why, k)
		}
	}
}

// blameOpenings sets s.conflict to all decisions because of which devices are not
// viable for the openings.
func (s *search) blameOpenings(open []opening, alt *alternative, n int) {
	s.conflict.clear()
	s.reach = 0
	s.foresight.focus.blameOpen(open)
	if s.depth == 0 {
		return // Nobody is to blame before the first decision.
	}
	s.foresight.blamed.clear()
	last, lastFrom := int32(-1), uint(0)
	for _, o := range open {
		s.reach = max(s.reach, o.reach())
		for _, a := range o.alternatives {
			if d := s.foresight.demandOf[a.id]; d != last || o.from < lastFrom {
				s.blameNotViable(&s.conflict, a, o.from)
				last, lastFrom = d, o.from
			}
		}
		if o.alternatives[0] == alt {
			s.blameSlot(&s.conflict, alt, n)
		} else {
			s.blameFloor(&s.conflict, o.position)
		}
	}
}

// blameUse blames what was taken from the counters and capacities that the devices of
// some openings draw on.
func (s *search) blameUse(open []opening) {
	f := s.foresight
	f.scratch.ClearAll()
	for i := range open {
		f.scratch.InPlaceUnion(open[i].viable)
	}
	f.blamed.components.ClearAll()
	for i, ok := f.scratch.NextSet(0); ok; i, ok = f.scratch.NextSet(i + 1) {
		if c := f.componentOf[i]; c >= 0 {
			f.blamed.components.Set(uint(c))
		}
	}
	s.blameIf(&s.conflict, func(c *choice) bool {
		component := f.componentOf[c.device]
		return f.scratch.Test(uint(c.device)) || component >= 0 && f.blamed.components.Test(uint(component))
	})
}
