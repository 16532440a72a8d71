package allocator

import resourceapi "k8s.io/api/resource/v1"

// overfull reports whether a claim would come to hold more devices than it can: each open
// request takes at least the slots of its opening, and a request that would go beyond the
// limit fails before any device is looked at for it.
func (s *search) overfull(open []opening, alt *alternative, n int) bool {
	for first := 0; first < len(open); {
		claim, end := open[first].alternatives[0].claim, first
		devices := int(s.claimed[claim])
		for ; end < len(open) && !open[end].entry && open[end].alternatives[0].claim == claim; end++ {
			devices += open[end].slots
		}
		if devices > resourceapi.AllocationResultsMaxSize {
			s.blameSize(open[first:end], alt, n)
			return true
		}
		first = max(end, first+1)
	}
	return false
}

// blameSize blames what keeps the openings of a claim from asking for less, and the
// alternatives that were picked for its requests before.
func (s *search) blameSize(open []opening, alt *alternative, n int) {
	s.blameOpenings(open, alt, n)
	if s.depth == 0 {
		return
	}
	next := open[0].alternatives[0]
	picked := next.request
	if next == alt {
		picked++
	}
	s.blameAlternatives(&s.conflict, next.claim, picked)
}

// addOversized marks alternatives as dead that would always come to be too many devices for
// their claim, as the requests before take too many. They fail before any device is looked at.
func (f *foresight) addOversized(s *search) {
	claim, before := -1, 0
	for p, r := range f.requests {
		if c := r.alternatives[0].claim; c != claim {
			claim, before = c, 0
		}
		if !s.left(p) {
			continue
		}
		least := resourceapi.AllocationResultsMaxSize
		for _, alt := range r.alternatives {
			needed := s.in.alternatives[alt.id].needed
			f.dead[alt.id] = before+needed > resourceapi.AllocationResultsMaxSize
			if !f.dead[alt.id] {
				least = min(least, needed)
			}
		}
		before += least
	}
}
