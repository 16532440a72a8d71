package solver

import (
	"cmp"
	"slices"
)

// assignment fails if the open slots cannot all have devices. A device that is not shareable
// serves one of them.
//
// Admin access is the exception: ordinary requests may have what claims with admin access have,
// if they choose before. So what is ordinary is matched by itself, and then, for each claim with
// admin access, all that must differ from what it has: the claim, and the ordinary requests of
// the claims after it.
type assignment struct{}

func (assignment) fails(s *search, open []opening) ([]opening, bool) {
	f := &s.ahead.flow
	if !slices.ContainsFunc(open, func(o opening) bool { return s.admin(&o) }) {
		return f.fails(s, open, nil, nil)
	}
	if some, fails := f.fails(s, filter(nil, open, func(o *opening) bool { return !s.admin(o) }), nil, nil); fails {
		return some, true
	}
	claim := int32(-1)
	for k := range open {
		of := s.p.Requests[open[k].request].Claim
		if !s.admin(&open[k]) || of == claim {
			continue
		}
		claim = of
		some, fails := f.fails(s, filter(nil, open, func(o *opening) bool {
			other := s.p.Requests[o.request].Claim
			return other == claim || other > claim && !s.admin(o)
		}), nil, nil)
		if fails {
			return some, true
		}
	}
	return nil, false
}

// admin reports whether an opening is for admin access. Its options agree in that.
func (s *search) admin(o *opening) bool {
	return s.p.Domains[s.p.Requests[o.request].Options[0].Domain].Admin
}

// distinct fails if the openings that a relation of this kind covers cannot have devices of
// different values. The most common value of a device stands for all that it has.
type distinct struct {
	relation int32
	// group is the value by device, -1 for none, room how many devices of a value can be had.
	group, room []int32
}

func newDistinct(s *search, relation int32) *distinct {
	d := &distinct{relation: relation}
	values := s.values(relation)
	// What all domains that a device is in agree on: derived attributes differ.
	offered := s.memory.lists.Take(len(s.p.Devices))
	for k := range s.p.Domains {
		c := s.p.Domains[k].covers(relation)
		if c == nil {
			continue
		}
		for i, values := range c.Values {
			switch {
			case values == nil:
			case offered[i] == nil:
				offered[i] = values
			default:
				offered[i] = intersect(offered[i], values)
			}
		}
	}
	common := s.memory.counts.Take(values)
	d.group, d.room = s.memory.counts.Take(len(offered)), s.memory.counts.Take(values)
	for _, values := range offered {
		for _, v := range values {
			common[v]++
			d.room[v] = 1
		}
	}
	for i, values := range offered {
		if d.group[i] = -1; len(values) > 0 {
			d.group[i] = slices.MaxFunc(values, func(v, w int32) int { return cmp.Compare(common[v], common[w]) })
		}
	}
	return d
}

func (d *distinct) fails(s *search, open []opening) ([]opening, bool) {
	return s.ahead.flow.fails(s, s.covered(open, d.relation), d.group, d.room)
}
