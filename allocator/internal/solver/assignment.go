// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

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

func distincts(s *search, open []opening) bool {
	return slices.ContainsFunc(s.ahead.distincts, func(d distinct) bool { return d.fails(s, open) })
}

// distinct fails if the openings that a relation of this kind covers cannot have devices of
// different values. The most common value of a device stands for all that it has.
type distinct struct {
	relation int32
	column   *Column
	// unit is by device the first one of which the value is the same.
	unit []int32
}

// newDistincts leaves out relations in which domains differ in what they compare: derived attributes do.
func (s *search) newDistincts() (list []distinct) {
	for r := range s.p.Relations {
		relation := &s.p.Relations[r]
		if column := s.columnOf(int32(r)); column != nil && !relation.Off && relation.kind().apart() {
			list = append(list, distinct{int32(r), column, s.unitsOf(column)})
		}
	}
	return list
}

func (s *search) unitsOf(column *Column) []int32 {
	unit := s.memory.counts.Take(len(column.Values))
	first := s.memory.counts.Take(column.count()) // by value: one more than the device
	for i, values := range column.Values {
		unit[i] = int32(i)
		if len(values) == 0 {
			continue
		}
		v := slices.MaxFunc(values, func(v, w int32) int { return len(column.having(v)) - len(column.having(w)) })
		if first[v] == 0 {
			first[v] = int32(i) + 1
		}
		unit[i] = first[v] - 1
	}
	return unit
}

func (d distinct) fails(s *search, open []opening) bool {
	some := s.covered(s.ahead.covered, open, d.relation)
	return len(some) > 0 && s.ahead.flow.fails(s, some, d.unit)
}
