package allocator

import "slices"

// unsupported reports whether some matchAttribute has no value left that all openings it
// covers can be served with. In a solution they all have one value in common, so there is
// then none below.
func (s *search) unsupported(open []opening, alt *alternative, n int) bool {
	for c := range s.in.problem.claims {
		for position := range s.in.problem.claims[c].constraints {
			at := claimConstraint{c, position}
			table := s.foresight.values[at]
			if table == nil || table.holders == nil {
				continue
			}
			some := covered(open, c, position)
			if len(some) == 0 || s.supported(some, at, table) {
				continue
			}
			s.blameOpenings(some, alt, n)
			s.blameUse(some)
			s.blameConstraint(&s.conflict, c, position)
			return true
		}
	}
	return false
}

func (s *search) supported(open []opening, at claimConstraint, t *valueTable) bool {
	state := s.related[at.claim][at.position]
	if state.devices == 0 {
		for n := range t.count {
			if v := (t.last + n) % t.count; s.serves(open, at, t, v) {
				t.last = v
				return true
			}
		}
		return false
	}
	for _, value := range state.values {
		if v, known := t.ids[value]; known && s.serves(open, at, t, v) {
			return true
		}
	}
	return false
}

// serves reports whether openings can be served with devices that offer a value.
func (s *search) serves(open []opening, at claimConstraint, t *valueTable, v int32) bool {
	f := s.foresight
	mark := len(f.unions)
	defer func() { f.unions = f.unions[:mark] }()
	some := make([]opening, len(open))
	for i, o := range open {
		some[i] = o
		if same := slices.IndexFunc(open[:i], func(other opening) bool { return other.viable == o.viable }); same >= 0 {
			some[i].viable = some[same].viable
		} else {
			some[i].viable = f.union(len(s.in.devices))
			f.offering(&some[i], t, v)
		}
		if some[i].count() < some[i].slots {
			return false
		}
	}
	if len(some) == 1 {
		return true
	}
	m := &f.matching
	m.begin(s, some)
	m.groupByCounters()
	return !m.fails()
}

// offering fills in the viable devices that offer a value.
func (f *foresight) offering(o *opening, t *valueTable, v int32) {
	for _, alt := range o.alternatives {
		d := f.demandOf[alt.id]
		if holders := t.holders[v][d]; holders != nil {
			f.scratch.ClearAll()
			f.scratch.InPlaceUnion(holders)
			f.scratch.InPlaceIntersection(f.demands[d].viable)
			o.viable.InPlaceUnion(f.scratch)
		}
	}
}
