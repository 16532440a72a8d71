package allocator

import "errors"

// A prioritized request hides what each of its alternatives would take. A search that takes
// long begins again, after it has looked at each of them alone from the root: one that starves
// another request whatever is decided is dead, which makes what is left look worse. If that is
// not enough, it looks at some requests alone, see focus.go.

const (
	// patienceGrowth is how many times as many steps the next attempt may take.
	patienceGrowth = 3
	// maxProbes is how often a dead alternative may lead to another one.
	maxProbes = 3
)

// errImpatient ends a search that is to begin again.
var errImpatient = errors.New("search takes long")

// worthProbing reports whether some request has a choice of alternatives.
func (s *search) worthProbing() bool {
	for position, r := range s.foresight.requests {
		if len(r.alternatives) > 1 && s.left(position) {
			return true
		}
	}
	return false
}

// insist begins again at the root, with what probing has found.
func (s *search) insist() verdict {
	long := s.stats.Steps >= longPatience && !s.foresight.focus.barred
	s.undo(s.root)
	s.stats.Backtracks += int64(len(s.chosen))
	s.chosen, s.depth, s.err = s.chosen[:0], 0, nil
	s.patience = max(longPatience, patienceGrowth*s.stats.Steps)
	for n := 0; n < maxProbes && s.probe(); n++ {
	}
	if s.starved(nil, 0, 0) || long && s.refutes(0, 0, func() verdict { return s.request(0, 0) }) {
		return failed
	}
	if s.err != nil {
		return halted
	}
	return s.request(0, 0)
}

// probe looks at each alternative that is left, and returns whether it found a dead one.
func (s *search) probe() (found bool) {
	f := s.foresight
	for position, r := range f.requests {
		if len(r.alternatives) < 2 || !s.left(position) {
			continue
		}
		for _, alt := range r.alternatives {
			if !f.dead[alt.id] && s.starvedBy(alt, r.alternatives) {
				f.dead[alt.id] = true
				found = true
			}
		}
	}
	return found
}

// starvedBy reports whether picking an alternative starves some request: there is then no
// solution, and no error, below any state in which it is picked.
func (s *search) starvedBy(alt *alternative, alternatives []*alternative) bool {
	dead := s.foresight.dead
	before := make([]bool, len(alternatives))
	for n, other := range alternatives {
		before[n] = dead[other.id]
		dead[other.id] = other != alt
	}
	s.stats.Steps++
	starved := s.starved(nil, 0, 0)
	for n, other := range alternatives {
		dead[other.id] = before[n]
	}
	return starved
}
