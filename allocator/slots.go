package allocator

// slot chooses the device for slot n of an alternative, from position start on:
// the order of devices within a request does not matter, so it ascends.
func (s *search) slot(alt *alternative, b *bound, n int, start uint) verdict {
	if n == b.needed {
		return s.request(alt.claim, alt.request+1)
	}
	if s.failsAlike(alt, n) {
		return failed
	}
	var tried classSet
	var conflict levels
	since, first, reach := s.stats.Steps, start, 0
	for i, ok := s.candidate(alt, b, start); ok; i, ok = s.candidate(alt, b, i+1) {
		device := int32(i)
		if tried.has(s, device) {
			continue
		}
		if !s.step() {
			return halted
		}
		if why, _ := s.refusal(alt, b, device); why == refusedError {
			return halted
		} else if why != accepted {
			continue
		}
		before, level := s.decide(alt, b, device, n)
		v := failed
		if !s.starved(alt, n+1, i+1) {
			v = s.slot(alt, b, n+1, i+1)
		}
		if v == found || v == halted {
			return v
		}
		if s.foresight == nil {
			s.err = errDeadEnd
			return halted
		}
		s.retract(before)
		if v == oversized || s.mayJump(alt) && !s.conflict.has(level) {
			// Another device in this place fails in the same way.
			return v
		}
		reach = max(reach, s.reach)
		conflict.addBelow(s.conflict, level)
		tried.add(s, device)
		if s.doubts(since) && s.refutesAfter(alt) {
			// No other device helps.
			return failed
		}
		if s.err != nil {
			return halted
		}
	}
	s.exhaust(alt, n, first, conflict, since)
	s.reach = max(s.reach, reach)
	return failed
}

// failsAlike reports whether a state like the one before slot n is known to fail.
func (s *search) failsAlike(alt *alternative, n int) bool {
	return s.foresight != nil && s.failedBefore(s.foresight.position(alt), alt, n)
}

// exhaust ends a slot for which no candidate is left: s.conflict becomes that of those
// tried and whatever stands against the others.
func (s *search) exhaust(alt *alternative, n int, first uint, conflict levels, since int64) {
	if s.foresight == nil {
		return
	}
	position := s.foresight.position(alt)
	s.blameRefused(&conflict, alt, first)
	s.blameSlot(&conflict, alt, n)
	if n == 0 {
		s.blameFloor(&conflict, position)
	}
	s.conflict, s.reach = conflict, position
	s.foresight.focus.blamed[position]++
	s.blameChosen(conflict)
	s.noteFailure(position, alt, n, since)
}

// refutesAfter reports whether some of the requests after that of an alternative cannot be
// served, whatever devices it has, and looking at these cannot be an error.
func (s *search) refutesAfter(alt *alternative) bool {
	after := s.foresight.position(alt) + 1
	return !s.errsBelow(alt, after-1) && after < len(s.foresight.requests) && s.refutes(after, s.foresight.focus.last, func() verdict { return s.request(alt.claim, alt.request+1) })
}

// decide commits a device that was just accepted for slot n, as a new level.
func (s *search) decide(alt *alternative, b *bound, device int32, n int) (before mark, level int) {
	before, level = s.mark(), s.depth
	charged := s.charges(device)
	s.relate(alt, s.next)
	s.commit(alt, b, device)
	s.chosen = append(s.chosen, choice{alt, device, level})
	s.depth++
	s.stats.Decisions++
	if s.foresight != nil {
		if n == 0 {
			s.raiseFloor(alt, device, level)
		}
		s.narrow(alt, device, charged)
	}
	return before, level
}

// retract takes the last decision back.
func (s *search) retract(before mark) {
	s.undo(before)
	s.chosen = s.chosen[:len(s.chosen)-1]
	s.depth--
	s.stats.Backtracks++
}

// candidate returns the first device from position start on that must be looked at.
func (s *search) candidate(alt *alternative, b *bound, start uint) (uint, bool) {
	allowed := b.domain.allowed
	if s.foresight != nil {
		allowed = s.foresight.demand(alt).viable
	}
	i, ok := allowed.NextSet(start)
	if len(b.domain.bad) == 0 {
		return i, ok
	}
	end := uint(len(s.in.devices))
	if ok {
		end = i
	}
	for j := start; j < end; j++ {
		if b.domain.bad[int32(j)] != nil {
			return j, true
		}
	}
	return i, ok
}

// every chooses the devices of a request for all, from position n on. There is
// nothing to choose: each must be had.
func (s *search) every(alt *alternative, b *bound, n int) verdict {
	if n == b.needed {
		if s.starved(alt, n, 0) {
			return failed
		}
		return s.request(alt.claim, alt.request+1)
	}
	if !s.step() {
		return halted
	}
	device := b.domain.mandatory[n]
	why, k := s.mandatoryRefusal(alt, b, device)
	switch {
	case s.err != nil:
		return halted
	case why != accepted:
		v := s.fail(alt, n)
		if s.foresight != nil {
			s.foresight.blamed.clear()
			s.blame(&s.conflict, alt, device, why, k)
			if n == 0 && !b.judgedFirst(why, device) {
				// Without the first device, no error can be met here either.
				s.reach--
			}
		}
		return v
	}
	before, level := s.decide(alt, b, device, n)
	v := s.every(alt, b, n+1)
	if v == failed && s.foresight == nil {
		s.err = errDeadEnd
		return halted
	}
	if v == failed || v == oversized {
		s.retract(before)
		if s.mayJump(alt) && s.conflict.has(level) {
			conflict := s.conflict
			s.conflict = nil
			s.conflict.addBelow(conflict, level)
			s.blameSlot(&s.conflict, alt, n)
		}
	}
	return v
}

// judgedFirst reports whether constraints were asked about a device that all must be had before
// it was refused: had they not admitted it, that would have been an error.
func (b *bound) judgedFirst(why refusal, device int32) bool {
	return why == refusedRoom || why == refusedBefore && b.domain.exhausted != nil && b.domain.exhausted.Test(uint(device))
}
