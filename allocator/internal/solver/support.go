// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// support fails if a Match relation has no value left with which all openings that it covers can be served. In
// a solution all their devices have a common value. A device without values is only admitted alone.
type support struct {
	relation int32
	// values are those that may still serve.
	values []int32
}

// newSupport takes the openings at the root, for RuleRootSupport.
func (s *search) newSupport(relation int32, root []opening) support {
	values := 0
	for k := range s.p.Domains {
		if c := s.p.Domains[k].covers(relation); c != nil {
			values = max(values, c.count())
		}
	}
	t := support{relation, s.memory.counts.Take(values)}
	for v := range t.values {
		t.values[v] = int32(v)
	}
	if s.rules&RuleRootSupport != 0 && s.lastStop == 0 {
		t.drop(s, root)
	}
	return t
}

// needsValue returns the openings that a relation covers, nil if they have one slot only: any viable device can
// fill it.
func (t support) needsValue(s *search, open []opening) []opening {
	some := s.covered(s.ahead.matched, open, t.relation)
	if !needsValue(some) {
		return nil
	}
	return some
}

// needsValue reports whether openings that a Match relation covers have several slots together.
func needsValue(open []opening) bool { return len(open) > 1 || len(open) == 1 && open[0].slots > 1 }

func (t support) fails(s *search, open []opening) bool {
	some, values := t.needsValue(s, open), t.values
	if s.related[t.relation].devices > 0 {
		values = s.related[t.relation].values
	}
	return some != nil && !slices.ContainsFunc(values, func(v int32) bool { return t.serves(s, some, v) })
}

// serves reports whether the openings can be served with devices that have the value.
func (t support) serves(s *search, open []opening, v int32) bool {
	a := s.ahead
	used := a.used
	defer func() { a.used = used }()
	a.served = a.served[:0]
	for k := range open {
		o := open[k]
		for _, option := range o.options {
			viable, offering := a.viable[option.Domain], a.offering[option.Domain].ClearAll()
			for _, i := range s.p.Domains[option.Domain].covers(t.relation).having(v) {
				offering.SetTo(uint(i), viable.Test(uint(i)))
			}
		}
		if len(o.options) == 1 {
			o.viable = a.offering[o.options[0].Domain]
			a.served = append(a.served, o)
		} else {
			a.served = s.addOpening(a.served, o.request, a.offering)
		}
		if last := len(a.served) - 1; last >= 0 && a.served[last].count() < a.served[last].slots {
			return false
		}
	}
	s.payForChecks(len(open))
	return !assignment(s, a.served) && (s.rules&RuleDistinct == 0 || !distincts(s, a.served))
}

// drop removes candidates at the root that have no value with which all openings of the relation can be served.
// A value that cannot serve at the root cannot serve below either.
func (t *support) drop(s *search, open []opening) {
	some := t.needsValue(s, open)
	if some == nil {
		return
	}
	t.values = slices.DeleteFunc(t.values, func(v int32) bool { return !t.serves(s, some, v) })
	for k, viable := range s.ahead.viable {
		c := s.p.Domains[k].covers(t.relation)
		if c == nil {
			continue
		}
		keep := s.ahead.offering[k].ClearAll()
		for _, v := range t.values {
			for _, i := range c.having(v) {
				keep.Set(uint(i))
			}
		}
		viable.InPlaceIntersection(keep)
	}
}
