package solver

import "slices"

// assignment fails if the open slots cannot all have devices. A device that is not shareable
// serves one of them. Admin access is left out: claims may have by that what others have.
func assignment(s *search, open []opening) bool {
	if slices.ContainsFunc(open, s.admin) {
		open = slices.DeleteFunc(slices.Clone(open), s.admin)
	}
	return s.ahead.flow.fails(s, open, nil)
}

// admin reports whether an opening is for admin access. Its options agree in that.
func (s *search) admin(o opening) bool {
	return s.p.Domains[s.p.Requests[o.request].Options[0].Domain].Admin
}

// distinct fails if the openings that a relation of this kind covers cannot have devices of
// different values. The most common value of a device stands for all that it has.
type distinct struct {
	relation int32
	// unit is by device the first one of which the value is the same.
	unit []int32
}

// newDistinct never fails where domains differ in what they compare: derived attributes do.
func (s *search) newDistinct(relation int32) distinct {
	var column *Column
	for k := range s.p.Domains {
		switch c := s.p.Domains[k].covers(relation); {
		case c == nil:
		case column != nil && c.Column != column:
			return distinct{}
		default:
			column = c.Column
		}
	}
	if column == nil {
		return distinct{}
	}
	d := distinct{relation, s.memory.counts.Take(len(column.Values))}
	first := s.memory.counts.Take(column.count()) // by value: one more than the device
	for i, values := range column.Values {
		d.unit[i] = int32(i)
		if len(values) == 0 {
			continue
		}
		v := slices.MaxFunc(values, func(v, w int32) int { return len(column.having(v)) - len(column.having(w)) })
		if first[v] == 0 {
			first[v] = int32(i) + 1
		}
		d.unit[i] = first[v] - 1
	}
	return d
}

func (d distinct) fails(s *search, open []opening) bool {
	return d.unit != nil && s.ahead.flow.fails(s, s.covered(open, d.relation), d.unit)
}
