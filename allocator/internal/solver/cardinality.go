// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// cardinality fails if the Match relations over one column cannot each have a value (a global cardinality
// constraint). A relation with several open devices needs one value that all of them have. Each value can go to
// at most as many relations as its devices can serve. So the sum over all values must reach the number of
// relations.
type cardinality struct {
	column    *Column
	relations []int32
	// wanting and served are openings by relation. level has one opening for each relation. All are scratch
	// buffers.
	wanting, served [][]opening
	level           []opening
}

// newCardinalities returns one propagator for each column that several relations compare.
func (s *search) newCardinalities() []cardinality {
	var list []cardinality
	for r := range s.p.Relations {
		column := s.columnOf(int32(r))
		if column == nil || s.p.Relations[r].Off || !s.p.Relations[r].kind().needsCommonValue() {
			continue
		}
		k := slices.IndexFunc(list, func(c cardinality) bool { return c.column == column })
		if k < 0 {
			k = len(list)
			list = append(list, cardinality{column: column})
		}
		list[k].relations = append(list[k].relations, int32(r))
	}
	list = slices.DeleteFunc(list, func(c cardinality) bool { return len(c.relations) < 2 })
	for k := range list {
		n := len(list[k].relations)
		list[k].wanting, list[k].served, list[k].level = make([][]opening, 0, n), make([][]opening, 0, n), s.memory.openings.Empty(n)
	}
	return list
}

// columnOf is the column that a relation compares. It is nil if its domains have different columns, as with
// derived attributes.
func (s *search) columnOf(relation int32) (column *Column) {
	for k := range s.p.Domains {
		if c := s.p.Domains[k].covers(relation); c != nil {
			if column != nil && c.Column != column {
				return nil
			}
			column = c.Column
		}
	}
	return column
}

func (c cardinality) fails(s *search, open []opening) bool {
	wanting := c.openings(s, open)
	if len(wanting) < 2 {
		return false // the support propagator handles one relation
	}
	served := 0
	for v := int32(0); served < len(wanting); v++ {
		if int(v) == c.column.count() {
			return true
		}
		served += c.serves(s, wanting, v)
	}
	return false
}

// openings returns, by relation, the openings whose devices must have a common value. Relations that share an
// opening with an earlier one are left out, as are relations with admin access.
func (c cardinality) openings(s *search, open []opening) [][]opening {
	list, all := c.wanting, s.ahead.wanting
	for _, r := range c.relations {
		some := s.covered(all[len(all):], open, r)
		switch {
		case len(some) == 0, !needsValue(some) && s.related[r].devices == 0:
		case slices.ContainsFunc(some, func(o opening) bool { return s.admin(o) || includes(all, o) }):
		default:
			list, all = append(list, some), all[:len(all)+len(some)]
		}
	}
	return list
}

func includes(list []opening, o opening) bool {
	return slices.ContainsFunc(list, func(other opening) bool { return other.request == o.request })
}

// serves is an upper bound on the number of relations that a value can go to. The last openings of all
// relations need different devices, or different shares of them. So do the last but one, and so on. Relations
// that are partly decided have fewer openings.
func (c cardinality) serves(s *search, wanting [][]opening, v int32) int {
	devices, served := c.column.having(v), c.served
	for _, some := range wanting {
		if !slices.ContainsFunc(some, func(o opening) bool { return o.among(devices) < o.slots }) {
			served = append(served, some)
		}
	}
	s.payForChecks(len(wanting) + len(served))
	most := len(served)
	for _, kind := range s.ahead.cumulatives {
		most = min(most, kind.serves(s, served, devices))
	}
	for n := 1; most > 0; n++ {
		level := c.level
		for _, some := range served {
			if n <= len(some) {
				level = append(level, some[len(some)-n])
			}
		}
		if len(level) == 0 {
			break
		}
		slots := slices.MinFunc(level, func(a, b opening) int { return a.slots - b.slots }).slots
		rooms, begun := s.rooms(level, devices), len(served)-len(level)
		for most > begun && together(rooms, most-begun) < slots*(most-begun) {
			most--
		}
	}
	return most
}

// rooms returns, for each unit, how many openings of different relations its devices can serve. A unit is a
// device, or all devices of one value where values must differ.
func (s *search) rooms(level []opening, devices []int32) []int {
	units, rooms, at := s.differing(level), s.ahead.rooms[:0], s.ahead.roomAt
	unitOf := func(i int32) int32 {
		if units == nil {
			return i
		}
		return units[i]
	}
	for _, i := range devices {
		u := unitOf(i)
		if at[u] == 0 {
			rooms = append(rooms, 0)
			at[u] = int32(len(rooms))
		}
		rooms[at[u]-1] += s.mostServed(level, i)
	}
	for _, i := range devices {
		at[unitOf(i)] = 0
	}
	s.ahead.rooms = rooms
	return rooms
}

// together is how many devices several openings can have, if each takes at most one of a unit.
func together(rooms []int, openings int) (sum int) {
	for _, room := range rooms {
		sum += min(room, openings)
	}
	return sum
}

// differing returns the units of a Distinct relation that covers the first opening. It is nil unless Distinct
// relations over the same column cover all other openings, too.
func (s *search) differing(level []opening) []int32 {
	covering := func(o opening, column *Column) int {
		return slices.IndexFunc(s.ahead.distincts, func(d distinct) bool {
			return s.coversAll(o, d.relation) && (column == nil || d.column == column)
		})
	}
	k := covering(level[0], nil)
	if k < 0 {
		return nil
	}
	d := s.ahead.distincts[k]
	if slices.ContainsFunc(level[1:], func(o opening) bool { return covering(o, d.column) < 0 }) {
		return nil
	}
	return d.unit
}

// among is how many of the devices an opening can take.
func (o *opening) among(devices []int32) (n int) {
	for _, i := range devices {
		if o.has(uint(i)) {
			n++
		}
	}
	return n
}

// mostServed is an upper bound on how many openings a device can serve.
func (s *search) mostServed(open []opening, i int32) int {
	switch {
	case !slices.ContainsFunc(open, func(o opening) bool { return o.has(uint(i)) }):
		return 0
	case s.p.Devices[i].Shareable:
		return int(s.sharesLeft(open, i))
	}
	return 1
}
