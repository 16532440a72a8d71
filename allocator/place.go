package allocator

import "fmt"

// place chooses a device for a slot if nothing stands against it. What was written
// before a refusal is undone by the caller.
func (s *search) place(alt *alternative, b *bound, i int32) bool {
	if s.taken(alt, i) {
		return false
	}
	if err := b.domain.bad[i]; err != nil {
		s.err = fmt.Errorf("%s: %w", s.in.problem.path(alt), err)
		return false
	}
	use := b.domain.consumptions[s.in.devices[i].Shape]
	s.stats.Propagations++
	if !s.room(use, i) || !s.charge(i) || s.constrain(alt, b, i) >= 0 {
		return false
	}
	s.hold(alt, use, i)
	return true
}

// placeMandatory is place for a device that a request for all must have. It is an
// error if a constraint does not let it, and only then does capacity count.
func (s *search) placeMandatory(alt *alternative, b *bound, i int32) bool {
	exhausted := b.domain.exhausted != nil && b.domain.exhausted.Test(uint(i))
	if s.taken(alt, i) || !exhausted && !b.domain.allowed.Test(uint(i)) {
		return false
	}
	s.stats.Propagations++
	if !s.charge(i) {
		return false
	}
	if refusing := s.constrain(alt, b, i); refusing >= 0 {
		if s.err == nil {
			c := &s.in.problem.claims[alt.claim]
			s.err = fmt.Errorf("%s: asks for all devices, but device %s violates constraint %d (%s)",
				s.in.problem.path(alt), s.in.deviceID(i), alt.constraints[refusing], c.constraints[alt.constraints[refusing]])
		}
		return false
	}
	use := b.domain.consumptions[s.in.devices[i].Shape]
	if exhausted || !s.room(use, i) {
		return false
	}
	s.hold(alt, use, i)
	return true
}

// constrain asks the constraints of an alternative. It returns the position in
// alternative.constraints of the one that refuses, or -1.
func (s *search) constrain(alt *alternative, b *bound, i int32) int {
	shape := s.in.devices[i].Shape
	for k, position := range alt.constraints {
		if s.omitted.constraint(alt.claim, position) {
			continue
		}
		s.stats.Propagations++
		seen := b.values[k][shape]
		if seen.err != nil {
			s.err = fmt.Errorf("%s: device %s: %w", s.in.problem.path(alt), s.in.deviceID(i), seen.err)
			return k
		}
		at := &s.constraints[alt.claim][position]
		next, admitted := s.in.problem.claims[alt.claim].constraints[position].admit(*at, seen.value)
		if !seen.found || !admitted {
			return k
		}
		s.trail.constraints.set(at, next)
	}
	return -1
}
