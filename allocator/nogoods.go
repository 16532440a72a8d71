package allocator

// nogoods are residues of states below which no solution was found. A solution below
// another state of the same residue has a counterpart below the noted one, which comes
// earlier in first-fit order: it is not the first. The same goes for errors.
type nogoods struct {
	known   map[string]struct{}
	bytes   int
	residue residue
}

// nogoodBytes bounds what is remembered.
const nogoodBytes = 4 << 20

// failedBefore reports whether the state before slot n of an alternative, or before a
// request if there is none, is known to fail. s.conflict then says why.
func (s *search) failedBefore(position int, alt *alternative, n int) bool {
	if s.foresight == nil || len(s.foresight.nogoods.known) == 0 {
		return false
	}
	g := &s.foresight.nogoods
	if _, known := g.known[string(g.residue.key(s, position, alt, n))]; !known {
		return false
	}
	s.blameResidue(position, alt, n)
	return true
}

// noteFailure remembers the present state, below which a search that began at a number
// of steps has failed.
func (s *search) noteFailure(position int, alt *alternative, n int, since int64) {
	if s.foresight == nil || s.stats.Steps-since < worthNoting {
		return
	}
	g := &s.foresight.nogoods
	if g.bytes > nogoodBytes {
		return
	}
	if g.known == nil {
		g.known = make(map[string]struct{})
	}
	key := string(g.residue.key(s, position, alt, n))
	g.known[key] = struct{}{}
	g.bytes += len(key) + 32
}

// blameResidue sets s.conflict to the decisions on which a residue depends.
func (s *search) blameResidue(position int, alt *alternative, n int) {
	s.conflict.clear()
	s.reach = position
	f := s.foresight
	if alt != nil {
		s.blameSlot(&s.conflict, alt, n)
	}
	f.blamed.clear()
	devices := &f.blamed.devices
	for _, d := range f.later[position] {
		devices.InPlaceUnion(f.demands[d].b.domain.allowed)
	}
	for i, ok := devices.NextSet(0); ok; i, ok = devices.NextSet(i + 1) {
		if c := f.componentOf[i]; c >= 0 {
			f.blamed.components.Set(uint(c))
		}
	}
	s.blameIf(&s.conflict, func(c *choice) bool {
		component := f.componentOf[c.device]
		return devices.Test(uint(c.device)) || component >= 0 && f.blamed.components.Test(uint(component)) || f.coveredLater(c.alt, position)
	})
	if position < len(f.requests) {
		if first := f.requests[position].alternatives[0]; f.atRisk[first.claim] {
			s.blameAlternatives(&s.conflict, first.claim, first.request)
		}
	}
}

// coveredLater reports whether a constraint on an alternative also covers a request from
// a position on.
func (f *foresight) coveredLater(alt *alternative, position int) bool {
	for _, d := range f.later[position] {
		if related(alt, f.demands[d].alt) {
			return true
		}
	}
	return false
}
