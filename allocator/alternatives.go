package allocator

import resourceapi "k8s.io/api/resource/v1"

// anyOf tries the alternatives of a request by preference.
func (s *search) anyOf(c, r int, alternatives []*alternative) verdict {
	var conflict levels
	level, result, reach := s.depth, oversized, 0
	if s.foresight != nil {
		position := s.foresight.positions[c] + r
		if s.failedBefore(position, nil, 0) {
			return failed
		}
		if under := s.floorOf(position); under != nil && under.pick > 0 {
			s.blameFloor(&conflict, position)
			alternatives, result = alternatives[under.pick:], failed
		}
	}
	since := s.stats.Steps
	s.pickedAt[c][r] = level
	s.depth++
	for _, alt := range alternatives {
		if s.foresight != nil && s.foresight.dead[alt.id] {
			result = failed
			continue
		}
		s.picked[c][r] = alt.index
		v := s.alternative(alt)
		if v == found || v == halted {
			return v
		}
		if v == failed {
			result = failed
			if s.mayJump(alt) && !s.conflict.has(level) {
				// No other alternative can help either.
				s.depth--
				return failed
			}
		}
		conflict.addBelow(s.conflict, level)
		reach = max(reach, s.reach)
	}
	s.depth--
	if result == failed && s.foresight != nil {
		s.noteFailure(s.foresight.positions[c]+r, nil, 0, since)
	}
	s.conflict, s.reach = conflict, reach
	return result
}

func (s *search) alternative(alt *alternative) verdict {
	b := &s.in.alternatives[alt.id]
	switch {
	case alt.all && b.needed == 0:
		return s.fail(alt, 0)
	case b.needed == 0:
		return s.request(alt.claim, alt.request+1)
	case int(s.claimed[alt.claim])+b.needed > resourceapi.AllocationResultsMaxSize:
		return s.oversize(alt)
	case alt.all:
		return s.every(alt, b, 0)
	}
	return s.slot(alt, b, 0, s.floorUnder(alt))
}

// fail is a failure of slot n of an alternative for which only the slots before it and
// the pick of the alternative are to blame.
func (s *search) fail(alt *alternative, n int) verdict {
	s.conflict.clear()
	s.blameSlot(&s.conflict, alt, n)
	s.reaches(alt)
	return failed
}

// reaches notes that a failure counts on nothing after a request.
func (s *search) reaches(alt *alternative) {
	if s.foresight != nil {
		s.reach = s.foresight.position(alt)
	}
}

// blameSlot blames what slot n depends on in its own request.
func (s *search) blameSlot(to *levels, alt *alternative, n int) {
	if n > 0 {
		to.add(s.chosen[len(s.chosen)-1].level)
	}
	if s.in.problem.claims[alt.claim].requests[alt.request].prioritized {
		to.add(s.pickedAt[alt.claim][alt.request])
	}
}

func (s *search) oversize(alt *alternative) verdict {
	if s.in.literal {
		return oversized
	}
	s.conflict.clear()
	s.blameAlternatives(&s.conflict, alt.claim, alt.request+1)
	return failed
}
