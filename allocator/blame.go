package allocator

import "slices"

// blame adds to a conflict the decisions which are behind a refusal.
func (s *search) blame(to *levels, alt *alternative, i int32, why refusal, k int) {
	switch why {
	case refusedTaken, refusedRoom:
		s.blameIf(to, func(c *choice) bool {
			return c.device == i && (!alt.admin || c.alt.claim == alt.claim || why == refusedRoom)
		})
	case refusedCounters:
		// A pool's counters and groups are not told apart: that would rarely help.
		pool := s.in.devices[i].pool
		s.blameIf(to, func(c *choice) bool {
			d := &s.in.devices[c.device]
			return d.ConsumesCounters && d.pool == pool
		})
	case refusedConstraint:
		s.blameConstraint(to, alt.claim, alt.constraints[k])
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

// blameUse blames what was taken from the counters and capacities that the devices of
// some openings draw on.
func (s *search) blameUse(open []opening) {
	s.blameIf(&s.conflict, func(c *choice) bool {
		taken := &s.in.devices[c.device]
		for _, o := range open {
			for i, ok := o.viable.NextSet(0); ok; i, ok = o.viable.NextSet(i + 1) {
				d := &s.in.devices[i]
				if int32(i) == c.device || d.pool == taken.pool && d.ConsumesCounters && taken.ConsumesCounters {
					return true
				}
			}
		}
		return false
	})
}
