// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package subsets

import "slices"

// Search looks for the cheapest set of numbers that suffices.
type Search struct {
	// Costs are those of the numbers 0, 1 and so on. They must be ascending and not negative.
	Costs []float64
	// Suffices says whether a set suffices. If a set does, then so must each larger set of the same Part.
	Suffices func(set []int) (bool, error)
	// Most is how many sets are tried in the order of their cost, at most, in all parts together.
	Most int

	tried int
}

// Found is a set that suffices.
type Found struct {
	Numbers []int // ascending
	Cost    float64
	// Least is set if no other set that suffices costs less. Otherwise Most was reached.
	Least bool
}

// Cheapest returns the cheapest set of some parts, nil if no set of them suffices. An error of Suffices ends the search.
func (s *Search) Cheapest(parts []Part) (*Found, error) {
	var best *Found
	least := true
	for _, part := range parts {
		found, err := s.cheapestOf(part)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		least = least && found.Least
		if best == nil || found.Cost < best.Cost {
			best = found
		}
	}
	if best != nil {
		best.Least = least
	}
	return best, nil
}

// cheapestOf tries the sets of a part in the order of their cost. The first that suffices is the cheapest.
func (s *Search) cheapestOf(part Part) (*Found, error) {
	all := slices.Concat(part.Forced, part.Free)
	if ok, err := s.Suffices(all); !ok || err != nil {
		return nil, err
	}
	needed, others, err := s.needed(part)
	if err != nil {
		return nil, err
	}
	if ok, err := s.Suffices(needed); ok || err != nil {
		return s.found(needed, true), err
	}
	costs := make([]float64, len(others))
	for i, n := range others {
		costs[i] = s.Costs[n]
	}
	for positions := range ByCost(costs) {
		if s.tried == s.Most {
			break
		}
		s.tried++
		set := slices.Clone(needed)
		for _, i := range positions {
			set = append(set, others[i])
		}
		if ok, err := s.Suffices(set); ok || err != nil {
			return s.found(set, true), err
		}
	}
	return s.withoutSpare(part)
}

// needed splits the numbers of a part. Without each of the needed ones, all others together do not suffice. The forced ones are
// needed.
func (s *Search) needed(part Part) (needed, others []int, err error) {
	needed = slices.Clone(part.Forced)
	for i, n := range part.Free {
		ok, err := s.Suffices(slices.Concat(part.Forced, part.Free[:i], part.Free[i+1:]))
		if err != nil {
			return nil, nil, err
		}
		if ok {
			others = append(others, n)
		} else {
			needed = append(needed, n)
		}
	}
	return needed, others, nil
}

// withoutSpare leaves numbers out, the most expensive first, as long as the rest suffices.
func (s *Search) withoutSpare(part Part) (*Found, error) {
	rest := slices.Clone(part.Free)
	for i := len(rest) - 1; i >= 0; i-- {
		without := slices.Concat(rest[:i], rest[i+1:])
		ok, err := s.Suffices(slices.Concat(part.Forced, without))
		if err != nil {
			return nil, err
		}
		if ok {
			rest = without
		}
	}
	return s.found(slices.Concat(part.Forced, rest), false), nil
}

func (s *Search) found(set []int, least bool) *Found {
	f := &Found{Numbers: slices.Sorted(slices.Values(set)), Least: least}
	for _, n := range f.Numbers {
		f.Cost += s.Costs[n]
	}
	return f
}
