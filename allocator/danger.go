package allocator

import (
	"slices"

	"github.com/dray-project/dray/pools"
)

// Looking at a device can be an error, and the first one that the search meets is the
// answer, as is the first solution. So what can be left out in a literal instance is that
// under which there is neither: lookahead then only counts on requests before the next at
// which an error is possible, and jumping back stops at the last of them.

// addDangers notes for which alternatives looking at a device can be an error.
func (f *foresight) addDangers(s *search) {
	f.errs = make([]bool, len(s.in.alternatives))
	if !s.in.literal {
		return
	}
	for p, r := range f.requests {
		for _, alt := range r.alternatives {
			if s.left(p) && s.mayErr(alt) {
				f.errs[alt.id] = true
				f.dangers = p + 1
			}
		}
	}
}

func (s *search) mayErr(alt *alternative) bool {
	b := &s.in.alternatives[alt.id]
	if len(b.domain.bad) > 0 || alt.all && len(alt.constraints) > 0 && b.needed > 0 {
		return true
	}
	for _, values := range b.values {
		for _, seen := range values {
			if seen.err != nil {
				return true
			}
		}
	}
	return false
}

// errsBelow reports whether, in any way to go on from a request, an alternative can meet
// an error. Refusals are for good, so devices that are taken now cannot be to blame.
func (s *search) errsBelow(alt *alternative, from int) bool {
	if !s.foresight.errs[alt.id] {
		return false
	}
	b := &s.in.alternatives[alt.id]
	if alt.all {
		return s.begins(alt, b) && s.violates(alt, b, from)
	}
	for i := range b.domain.bad {
		if !s.taken(alt, i) {
			return true
		}
	}
	return len(b.values) > 0
}

// begins reports whether the first device that an alternative must have is not refused.
func (s *search) begins(alt *alternative, b *bound) bool {
	why, _ := s.mandatoryRefusal(alt, b, b.domain.mandatory[0])
	if s.err != nil {
		s.err = nil
		return true
	}
	return why == accepted
}

// violates reports whether a constraint may come not to admit a device that an alternative
// must have.
func (s *search) violates(alt *alternative, b *bound, from int) bool {
	for k, position := range alt.constraints {
		if s.omitted.constraint(alt.claim, position) {
			continue
		}
		constraint, state := s.in.problem.claims[alt.claim].constraints[position], s.related[alt.claim][position]
		open := s.foresight.coversBetween(alt, position, from)
		for _, i := range b.domain.mandatory {
			seen := b.values[k][s.in.devices[i].Shape]
			if seen.err != nil || !seen.found || open && !agrees(constraint, state, seen) {
				return true
			}
			next, ok := constraint.admit(state, seen.value)
			if !ok {
				return true
			}
			if !open {
				state = next
			}
		}
	}
	return false
}

// agrees reports whether a constraint admits a value whatever devices come in between: a
// matchAttribute of which it offers all values that are left.
func agrees(c constraint, state constraintState, seen constrained) bool {
	if _, match := c.(matchAttribute); !match || state.devices == 0 {
		return false
	}
	offered := c.compared(seen.value)
	return !slices.ContainsFunc(state.values, func(v pools.Value) bool { return !slices.Contains(offered, v) })
}

// coversBetween reports whether a constraint on an alternative covers a request before it,
// from a position on.
func (f *foresight) coversBetween(alt *alternative, constraint, from int) bool {
	for p := from; p < f.position(alt); p++ {
		for _, other := range f.requests[p].alternatives {
			if other.claim == alt.claim && other.covered(constraint) {
				return true
			}
		}
	}
	return false
}

// mayJump reports whether the decision on a request may be jumped back over: whatever it
// is, no error can be met on the way to the last failure.
func (s *search) mayJump(alt *alternative) bool {
	f := s.foresight
	if f == nil {
		return false
	}
	from := f.position(alt)
	for p := from; p < f.dangers && p <= s.reach; p++ {
		for _, other := range f.requests[p].alternatives {
			if s.errsBelow(other, from) {
				return false
			}
		}
	}
	return true
}
