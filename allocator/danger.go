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
	f.errs = s.space.flags.take(len(s.in.alternatives))
	if !s.in.literal {
		return
	}
	for p, r := range f.requests {
		for _, alt := range r.alternatives {
			if s.left(p) && s.mayErr(alt) {
				f.errs[alt.id] = true
				f.dangers = p + 1
				f.focus.barred = f.focus.barred || alt.all
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
	if !s.foresight.errs[alt.id] || s.foresight.dead[alt.id] {
		return false
	}
	b := &s.in.alternatives[alt.id]
	if alt.all {
		return s.firstError(alt, from) >= 0
	}
	for i := range b.domain.bad {
		if !s.taken(alt, i) {
			return true
		}
	}
	return len(b.values) > 0
}

// firstError is the position of the first of the devices that all must be had at which
// there can be an error, -1 if there can be none: a device before it is refused, for good
// and without one. The order is that of mandatoryRefusal.
func (s *search) firstError(alt *alternative, from int) int {
	b := &s.in.alternatives[alt.id]
	states := s.foresight.statesAt(s, alt, from)
	for n, i := range b.domain.mandatory {
		exhausted := b.domain.exhausted != nil && b.domain.exhausted.Test(uint(i))
		switch {
		case s.taken(alt, i), !exhausted && !b.domain.allowed.Test(uint(i)):
			return -1
		case s.in.devices[i].ConsumesCounters && !s.affords(i):
			return -1
		case s.violates(alt, b, states, i):
			return n
		case exhausted, s.shares[i] > 0 && !s.room(b.domain.uses[i], i):
			return -1
		}
	}
	return -1
}

// prospect is what is known of the state of a constraint when a request is reached.
type prospect struct {
	constraintState
	// sure is set if it is the state. Otherwise values are all that may be left of those
	// of a matchAttribute, and common those of them that are certainly left.
	sure   bool
	common []pools.Value
}

// statesAt looks ahead at the constraints of an alternative.
func (f *foresight) statesAt(s *search, alt *alternative, from int) []prospect {
	f.prospects = f.prospects[:0]
	for _, position := range alt.constraints {
		p := prospect{constraintState: s.related[alt.claim][position]}
		if p.sure = !f.coversBetween(alt, position, from); !p.sure {
			f.offer(s, &p, alt, position, from)
		}
		f.prospects = append(f.prospects, p)
	}
	return f.prospects
}

// offer adds the values that a constraint may find on devices for requests before an
// alternative, and leaves those in common that it finds whatever devices they are.
func (f *foresight) offer(s *search, to *prospect, alt *alternative, position, from int) {
	first := to.devices == 0
	to.common = to.values
	for p := from; p < f.position(alt); p++ {
		for _, other := range f.requests[p].alternatives {
			k := slices.Index(other.constraints, position)
			if other.claim != alt.claim || k < 0 || s.omits(p) {
				continue
			}
			viable := f.demand(other).viable
			for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
				seen := s.in.alternatives[other.id].values[k][i]
				offers := s.in.problem.claims[alt.claim].constraints[position].compared(seen.value)
				to.meet(offers, first)
				first = false
			}
		}
	}
}

// meet takes into account what a device offers to a constraint, perhaps the first one.
func (p *prospect) meet(offers []pools.Value, first bool) {
	if first {
		p.common = offers
	} else {
		p.common = slices.DeleteFunc(slices.Clone(p.common), func(v pools.Value) bool { return !slices.Contains(offers, v) })
	}
	if p.devices > 0 {
		return
	}
	for _, v := range offers {
		if !slices.Contains(p.values, v) {
			p.values = append(p.values, v)
		}
	}
}

// violates reports whether a constraint may come not to admit a device that an alternative
// must have. It takes note if it is sure to admit it.
func (s *search) violates(alt *alternative, b *bound, states []prospect, i int32) bool {
	for k, position := range alt.constraints {
		if s.omitted.constraint(alt.claim, position) {
			continue
		}
		constraint := s.in.problem.claims[alt.claim].constraints[position]
		seen := &b.values[k][i]
		if seen.err != nil || !seen.found || !states[k].sure && !states[k].agrees(constraint, *seen) {
			return true
		}
		if states[k].sure {
			next, ok := constraint.admit(states[k].constraintState, seen.value)
			if !ok {
				return true
			}
			states[k].constraintState = next
		}
	}
	return false
}

// agrees reports whether a constraint admits a value whatever devices come in between: a
// matchAttribute of which it offers all values that can be left, or one that certainly is.
func (p *prospect) agrees(c constraint, seen constrained) bool {
	if match, ok := c.(matchAttribute); !ok || !match.lists || len(p.values) == 0 {
		return false
	}
	offered := c.compared(seen.value)
	if slices.ContainsFunc(p.common, func(v pools.Value) bool { return slices.Contains(offered, v) }) {
		return true
	}
	return !slices.ContainsFunc(p.values, func(v pools.Value) bool { return !slices.Contains(offered, v) })
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
