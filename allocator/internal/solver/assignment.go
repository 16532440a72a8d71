package solver

import (
	"cmp"
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// assignment fails if the open slots cannot all have devices. A device that is not shareable
// serves one of them, and the devices of a bin as many as its resources have room for.
//
// Admin access is the exception: ordinary requests may have what claims with admin access have,
// if they choose before. So what is ordinary is matched by itself, and then, for each claim with
// admin access, all that must differ from what it has: the claim, and the ordinary requests of
// the claims after it.
type assignment struct{}

func (a assignment) fails(s *search, open []opening) ([]opening, bool) {
	if !slices.ContainsFunc(open, func(o opening) bool { return s.admin(&o) }) {
		return a.differ(s, open)
	}
	if some, fails := a.differ(s, filter(nil, open, func(o *opening) bool { return !s.admin(o) })); fails {
		return some, true
	}
	claim := int32(-1)
	for k := range open {
		of := s.p.Requests[open[k].request].Claim
		if !s.admin(&open[k]) || of == claim {
			continue
		}
		claim = of
		some, fails := a.differ(s, filter(nil, open, func(o *opening) bool {
			other := s.p.Requests[o.request].Claim
			return other == claim || other > claim && !s.admin(o)
		}))
		if fails {
			return some, true
		}
	}
	return nil, false
}

// differ tries a flow of openings whose devices differ.
func (assignment) differ(s *search, open []opening) ([]opening, bool) {
	if s.ahead.bins.of == nil {
		return s.ahead.flow.fails(s, open, nil, nil)
	}
	return s.ahead.flow.fails(s, open, s.ahead.bins.of, s.binRoom(open))
}

// admin reports whether an opening is for admin access. Its options agree in that.
func (s *search) admin(o *opening) bool {
	return s.p.Domains[s.p.Requests[o.request].Options[0].Domain].Admin
}

// bins sort devices by counter set: each is counted with the one of its own on which most devices
// draw. Shareable devices are counted with none, as many slots may draw once.
type bins struct {
	// of is the counter set of each device, -1 for none. Nil if no device draws on any.
	of []int32
	// room is how many devices of each counter set can be had.
	room []int32
	// cheapest are, by resource, the devices of its bin from the one that takes least.
	cheapest [][]int32
}

func (s *search) newBins() bins {
	sets := int32(0)
	for _, set := range s.p.SetOf {
		sets = max(sets, set+1)
	}
	if sets == 0 {
		return bins{}
	}
	b := bins{of: s.memory.counts.Take(len(s.p.Devices)), room: s.memory.counts.Take(int(sets)), cheapest: s.memory.lists.Take(len(s.p.Left))}
	drawing, sizes := s.memory.counts.Take(int(sets)), s.memory.counts.Take(int(sets))
	for i := range s.p.Devices {
		for _, draw := range s.p.Devices[i].Draws {
			drawing[s.p.SetOf[draw.Resource]]++
		}
	}
	for i := range s.p.Devices {
		d := &s.p.Devices[i]
		if b.of[i] = -1; d.Shareable || len(d.Draws) == 0 {
			continue
		}
		most := slices.MaxFunc(d.Draws, func(x, y Draw) int {
			return cmp.Compare(drawing[s.p.SetOf[x.Resource]], drawing[s.p.SetOf[y.Resource]])
		})
		b.of[i] = s.p.SetOf[most.Resource]
		sizes[b.of[i]]++
	}
	for r, set := range s.p.SetOf {
		if set < 0 {
			continue
		}
		b.cheapest[r] = s.memory.counts.Empty(int(sizes[set]))
		for i, of := range b.of {
			if of == set {
				b.cheapest[r] = append(b.cheapest[r], int32(i))
			}
		}
		slices.SortStableFunc(b.cheapest[r], func(x, y int32) int { return s.drawn(x, int32(r)).Cmp(s.drawn(y, int32(r))) })
	}
	return b
}

// drawn is what a device draws of a resource.
func (s *search) drawn(i, resource int32) amount.Amount {
	for _, draw := range s.p.Devices[i].Draws {
		if draw.Resource == resource {
			return draw.Amount
		}
	}
	return amount.Amount{}
}

// binRoom is, by bin, how many of the devices that are viable for openings its resources can serve at
// most.
func (s *search) binRoom(open []opening) []int32 {
	b := &s.ahead.bins
	mark := s.ahead.used
	viable, slots := s.union(), 0
	for k := range open {
		viable.InPlaceUnion(open[k].viable)
		slots += open[k].slots
	}
	s.ahead.used = mark
	for set := range b.room {
		b.room[set] = int32(slots)
	}
	for r, members := range b.cheapest {
		left, fits := s.left[r], int32(0)
		for _, i := range members {
			if !viable.Test(uint(i)) {
				continue
			}
			takes := s.drawn(i, int32(r))
			if takes.Cmp(left) > 0 || fits == int32(slots) {
				break
			}
			left = left.Sub(takes)
			fits++
		}
		if members != nil {
			room := &b.room[s.p.SetOf[r]]
			*room = min(*room, fits)
		}
	}
	return b.room
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
	values := s.p.Relations[relation].Values
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
	common := s.memory.counts.Take(int(values))
	d.group, d.room = s.memory.counts.Take(len(offered)), s.memory.counts.Take(int(values))
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
