// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// assignment fails if the slots of the openings cannot all be matched with devices. A device that is not
// shareable serves one slot. Openings with admin access are left out: they may have devices that other claims
// have.
func assignment(s *search, open []opening) bool {
	if slices.ContainsFunc(open, s.admin) {
		open = slices.DeleteFunc(slices.Clone(open), s.admin)
	}
	return s.ahead.flow.fails(s, open, nil)
}

// admin reports whether an opening is for admin access. All its options agree in that.
func (s *search) admin(o opening) bool {
	return s.p.Domains[s.p.Requests[o.request].Options[0].Domain].Admin
}

func distincts(s *search, open []opening) bool {
	return slices.ContainsFunc(s.ahead.distincts, func(d distinct) bool { return d.fails(s, open) })
}

// distinct fails if the openings that a Distinct relation covers cannot be matched with devices of different
// values. Of a device with several values only its most common one counts.
type distinct struct {
	relation int32
	column   *Column
	// unit maps each device to the first device with the same value.
	unit []int32
}

// newDistincts leaves out relations whose domains have different columns, as with derived attributes.
func (s *search) newDistincts() (list []distinct) {
	for r := range s.p.Relations {
		relation := &s.p.Relations[r]
		if column := s.columnOf(int32(r)); column != nil && !relation.Off && relation.kind().needsDistinctValues() {
			list = append(list, distinct{int32(r), column, s.unitsOf(column)})
		}
	}
	return list
}

func (s *search) unitsOf(column *Column) []int32 {
	unit := s.memory.counts.Take(len(column.Values))
	first := s.memory.counts.Take(column.count()) // by value: the device plus 1, 0 if there is none yet
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
