package allocator

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

// errsNow reports whether an alternative can still meet an error. Refusals are for good,
// and the first device of those that all must be had ends it if refused.
func (s *search) errsNow(alt *alternative) bool {
	if !s.foresight.errs[alt.id] {
		return false
	}
	b := &s.in.alternatives[alt.id]
	if !alt.all {
		return true
	}
	why, _ := s.mandatoryRefusal(alt, b, b.domain.mandatory[0])
	if s.err != nil {
		s.err = nil
		return true
	}
	return why == accepted
}

// mayJump reports whether decisions from a request on may be jumped back over: no error
// can be met there.
func (s *search) mayJump(alt *alternative) bool {
	f := s.foresight
	return f != nil && f.position(alt) >= f.dangers
}
