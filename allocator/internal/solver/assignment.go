package solver

import "slices"

// assignment fails if the open slots cannot all have devices. A device that is not shareable
// serves one of them. Admin access is left out: claims may have by that what others have.
func assignment(s *search, open []opening) bool {
	if slices.ContainsFunc(open, s.admin) {
		open = slices.DeleteFunc(slices.Clone(open), s.admin)
	}
	return s.ahead.flow.fails(s, open, nil, 0)
}

// admin reports whether an opening is for admin access. Its options agree in that.
func (s *search) admin(o opening) bool {
	return s.p.Domains[s.p.Requests[o.request].Options[0].Domain].Admin
}

func distincts(s *search, open []opening) bool {
	return slices.ContainsFunc(s.ahead.distincts, func(d distinct) bool { return d.fails(s, open) })
}

// distinct fails if the openings that a relation of this kind covers cannot have devices of
// different values. The most common value of a device stands for all that it has.
type distinct struct {
	relation int32
	column   *Column
	// group is the value by device, -1 for none, of so many.
	group  []int32
	groups int
}

// newDistinct is false if domains differ in what they compare: derived attributes do.
func (s *search) newDistinct(relation int32) (d distinct, same bool) {
	column := s.columnOf(relation)
	if column == nil {
		return d, false
	}
	d = distinct{relation, column, s.memory.counts.Take(len(column.Values)), column.count()}
	for i, values := range column.Values {
		if d.group[i] = -1; len(values) > 0 {
			d.group[i] = slices.MaxFunc(values, func(v, w int32) int { return len(column.having(v)) - len(column.having(w)) })
		}
	}
	return d, true
}

func (d distinct) fails(s *search, open []opening) bool {
	some := s.covered(s.ahead.covered, open, d.relation)
	return len(some) > 0 && s.ahead.flow.fails(s, some, d.group, d.groups)
}
