package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
)

// refusal is what stands against a candidate because of the choices made so far. It
// never goes away again further down: choices only ever take.
type refusal int

const (
	accepted refusal = iota
	// refusedTaken: the device is chosen already.
	refusedTaken
	// refusedRoom: the shares chosen leave too little capacity.
	refusedRoom
	// refusedCounters: too little is left of a counter, or the compatibility
	// groups do not fit.
	refusedCounters
	// refusedConstraint: a constraint does not admit the device.
	refusedConstraint
	// refusedBefore: no choice is to blame, the device is not to be had at all.
	refusedBefore
	// refusedError: looking at the device is an error, which ends the search.
	refusedError
)

// refusal checks a device for a slot of an alternative. It changes nothing but
// s.next, the states of the alternative's constraints after the choice, and s.err. For
// refusedConstraint, the second result is the position in alternative.constraints.
func (s *search) refusal(alt *alternative, b *bound, i int32) (refusal, int) {
	s.stats.Propagations++
	switch d := &s.in.devices[i]; {
	case s.taken(alt, i):
		return refusedTaken, 0
	case b.domain.bad[i] != nil:
		s.err = fmt.Errorf("%s: %w", s.in.problem.path(alt), b.domain.bad[i])
		return refusedError, 0
	case s.shares[i] > 0 && !s.room(b.domain.uses[i], i):
		return refusedRoom, 0
	case d.ConsumesCounters && !s.affords(i):
		return refusedCounters, 0
	}
	return s.admits(alt, b, i)
}

// taken reports whether the choices made so far keep a request from the device:
// ordinary requests want it for themselves, admin access once per claim.
func (s *state) taken(alt *alternative, i int32) bool {
	if alt.admin {
		return s.held[alt.claim] != nil && s.held[alt.claim][i] > 0
	}
	return s.holders[i] > 0
}

// room reports whether the device has capacity left for one more share.
func (s *state) room(use *consumption, i int32) bool {
	for p, part := range use.parts {
		if s.consumption(i, p, part.name).Add(part.taken).Cmp(part.total) > 0 {
			return false
		}
	}
	return true
}

// consumption is what is taken of part p of a device, in use before or chosen now.
func (s *state) consumption(i int32, p int, name resourceapi.QualifiedName) amount.Amount {
	d := &s.in.devices[i]
	before := s.in.pools[d.pool].used.Consumed(d.index, name)
	if s.shares[i] == 0 {
		return before
	}
	return before.Add(s.consumed[i][p])
}

// affords reports whether counters and compatibility groups let a device be chosen.
func (s *state) affords(i int32) bool {
	if !s.charges(i) {
		return true
	}
	d := &s.in.devices[i]
	// A pool which is overdrawn in any counter gives nothing more.
	if s.in.pools[d.pool].used.Overdrawn {
		return false
	}
	if s.in.features().CompatibilityGroups {
		for _, use := range d.Groups {
			if !s.pools[d.pool].groups[use.Set].Admits(use.Groups) {
				return false
			}
		}
	}
	for _, use := range d.Uses {
		if s.pools[d.pool].left[use.Counter].Cmp(use.Amount) < 0 {
			return false
		}
	}
	return true
}

// admits asks the constraints of an alternative.
func (s *search) admits(alt *alternative, b *bound, i int32) (refusal, int) {
	s.next = s.next[:0]
	for k, position := range alt.constraints {
		now := s.related[alt.claim][position]
		if s.omitted.constraint(alt.claim, position) {
			s.next = append(s.next, now)
			continue
		}
		s.stats.Propagations++
		seen := &b.values[k][i]
		if seen.err != nil {
			s.err = fmt.Errorf("%s: device %s: %w", s.in.problem.path(alt), s.in.deviceID(i), seen.err)
			return refusedError, k
		}
		next, ok := s.in.problem.claims[alt.claim].constraints[position].admit(now, seen.value)
		if !ok || !seen.found {
			return refusedConstraint, k
		}
		s.next = append(s.next, next)
	}
	return accepted, 0
}

// mandatoryRefusal is refusal for a device that a request for all must have. A
// constraint that does not admit it is an error, and only then does capacity count.
func (s *search) mandatoryRefusal(alt *alternative, b *bound, i int32) (refusal, int) {
	s.stats.Propagations++
	exhausted := b.domain.exhausted != nil && b.domain.exhausted.Test(uint(i))
	switch {
	case s.taken(alt, i):
		return refusedTaken, 0
	case !exhausted && !b.domain.allowed.Test(uint(i)):
		return refusedBefore, 0
	case s.in.devices[i].ConsumesCounters && !s.affords(i):
		return refusedCounters, 0
	}
	why, k := s.admits(alt, b, i)
	switch {
	case why == refusedConstraint:
		c := &s.in.problem.claims[alt.claim]
		s.err = fmt.Errorf("%s: asks for all devices, but device %s violates constraint %d (%s)",
			s.in.problem.path(alt), s.in.deviceID(i), alt.constraints[k], c.constraints[alt.constraints[k]])
		return refusedError, k
	case why != accepted:
		return why, k
	case exhausted:
		return refusedBefore, 0
	case s.shares[i] > 0 && !s.room(b.domain.uses[i], i):
		return refusedRoom, 0
	}
	return accepted, 0
}
