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

func (assignment) fails(s *search, open []opening) ([]opening, bool) {
	return s.unassignableByClaim(open, true)
}

// unassignableByClaim is unassignable for openings of several claims.
func (s *search) unassignableByClaim(open []opening, remember bool) ([]opening, bool) {
	admin := slices.ContainsFunc(open, func(o opening) bool { return s.admin(&o) })
	if !admin {
		return s.unassignable(open, remember)
	}
	if some, fails := s.unassignable(filter(nil, open, func(o *opening) bool { return !s.admin(o) }), false); fails {
		return some, true
	}
	claim := int32(-1)
	for k := range open {
		of := s.p.Requests[open[k].request].Claim
		if !s.admin(&open[k]) || of == claim {
			continue
		}
		claim = of
		differ := filter(nil, open, func(o *opening) bool {
			other := s.p.Requests[o.request].Claim
			return other == claim || other > claim && !s.admin(o)
		})
		if some, fails := s.unassignable(differ, false); fails {
			return some, true
		}
	}
	return nil, false
}

// filter appends the openings that are to be kept.
func filter(kept, open []opening, keep func(*opening) bool) []opening {
	for k := range open {
		if keep(&open[k]) {
			kept = append(kept, open[k])
		}
	}
	return kept
}

// admin reports whether an opening is for admin access. Its options agree in that.
func (s *search) admin(o *opening) bool {
	return s.p.Domains[s.p.Requests[o.request].Options[0].Domain].Admin
}

// unassignable tries a flow of openings whose devices differ. It may be remembered for the next time.
func (s *search) unassignable(open []opening, remember bool) ([]opening, bool) {
	f := &s.ahead.flow
	f.begin(s, open)
	if s.rules&RuleResources != 0 {
		s.groupByBins()
	}
	if remember {
		f.goHome()
	}
	if f.fails(s) {
		return f.visited(), true
	}
	if remember {
		f.settle()
	}
	return nil, false
}

// bin is the devices that are counted with a counter set: each with the one on which most
// devices draw. Shareable devices are counted with none, as many slots may draw once.
type bin struct {
	members []int32
	// cheapest are, for each resource, the members from the one that takes least.
	cheapest []cheapest
}

type cheapest struct {
	resource int32
	members  []int32
	amounts  []amount.Amount
}

// Bins are the bins of devices, with the bin of each, -1 for none. They depend on nothing but the
// devices, and are safe for concurrent use.
type Bins struct {
	list []bin
	of   []int32
}

// NewBins sorts devices into bins. SetOf is that of a Problem.
func NewBins(devices []Device, setOf []int32) *Bins {
	b := &Bins{of: slices.Repeat([]int32{-1}, len(devices))}
	drawing := make(map[int32]int)
	for i := range devices {
		for _, draw := range devices[i].Draws {
			drawing[setOf[draw.Resource]]++
		}
	}
	binOf := make(map[int32]int32)
	for i := range devices {
		d := &devices[i]
		if d.Shareable || len(d.Draws) == 0 {
			continue
		}
		set := setOf[d.Draws[0].Resource]
		for _, draw := range d.Draws[1:] {
			if other := setOf[draw.Resource]; drawing[other] > drawing[set] {
				set = other
			}
		}
		n, known := binOf[set]
		if !known {
			n = int32(len(b.list))
			binOf[set] = n
			b.list = append(b.list, bin{})
		}
		b.of[i] = n
		b.list[n].members = append(b.list[n].members, int32(i))
	}
	for n := range b.list {
		b.list[n].sort(devices)
	}
	return b
}

func (b *bin) sort(devices []Device) {
	for _, i := range b.members {
		for _, draw := range devices[i].Draws {
			if !slices.ContainsFunc(b.cheapest, func(c cheapest) bool { return c.resource == draw.Resource }) {
				b.cheapest = append(b.cheapest, cheapest{resource: draw.Resource})
			}
		}
	}
	for k := range b.cheapest {
		c := &b.cheapest[k]
		use := func(i int32) amount.Amount { return drawn(devices[i].Draws, c.resource) }
		c.members = slices.Clone(b.members)
		slices.SortFunc(c.members, func(x, y int32) int { return cmp.Or(use(x).Cmp(use(y)), cmp.Compare(x, y)) })
		for _, i := range c.members {
			c.amounts = append(c.amounts, use(i))
		}
	}
}

func drawn(draws []Draw, resource int32) amount.Amount {
	for _, draw := range draws {
		if draw.Resource == resource {
			return draw.Amount
		}
	}
	return amount.Amount{}
}

// groupByBins makes each bin a group of the flow: its room is how many of the devices that are
// viable for the openings its resources can serve at most.
func (s *search) groupByBins() {
	b := s.ahead.bins
	if len(b.list) == 0 {
		return
	}
	viable := s.ahead.spare
	viable.ClearAll()
	for k := range s.ahead.flow.open {
		viable.InPlaceUnion(s.ahead.flow.open[k].viable)
	}
	for n := range b.list {
		room := int32(len(s.ahead.flow.slots))
		for k := range b.list[n].cheapest {
			c := &b.list[n].cheapest[k]
			left, fits := s.left[c.resource], int32(0)
			for m, i := range c.members {
				if c.amounts[m].Cmp(left) > 0 || fits == room {
					break
				}
				if viable.Test(uint(i)) {
					left = left.Sub(c.amounts[m])
					fits++
				}
			}
			room = min(room, fits)
		}
		s.ahead.room[n] = room
	}
	s.ahead.flow.setGroups(b.of, s.ahead.room)
}

// distinct fails if the openings that a relation of this kind covers cannot have devices of
// different values. The most common value of a device stands for all that it has.
type distinct struct {
	relation int32
	// group is the value by device, -1 for none.
	group []int32
	room  []int32
}

func newDistinct(s *search, relation int32) *distinct {
	values := s.p.Relations[relation].Values
	d := &distinct{relation: relation, group: slices.Repeat([]int32{-1}, len(s.p.Devices)), room: slices.Repeat([]int32{1}, int(values))}
	common := make([]int32, values)
	offered := make([][]int32, len(s.p.Devices))
	differ := make([]bool, len(s.p.Devices))
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
				for _, v := range values {
					common[v]++
				}
			case !slices.Equal(offered[i], values):
				differ[i] = true // derived attributes
			}
		}
	}
	for i, values := range offered {
		for _, v := range values {
			if g := d.group[i]; !differ[i] && (g < 0 || common[v] > common[g]) {
				d.group[i] = v
			}
		}
	}
	return d
}

func (d *distinct) fails(s *search, open []opening) ([]opening, bool) {
	some := s.covered(open, d.relation)
	if len(some) == 0 {
		return nil, false
	}
	f := &s.ahead.flow
	f.begin(s, some)
	f.setGroups(d.group, d.room)
	if f.fails(s) {
		return f.visited(), true
	}
	return nil, false
}

// covered are the openings of which a relation covers all options. They are good until it is
// asked for again.
func (s *search) covered(open []opening, relation int32) []opening {
	s.ahead.covered = filter(s.ahead.covered[:0], open, func(o *opening) bool {
		return !slices.ContainsFunc(o.options, func(option int32) bool {
			return s.p.Domains[s.p.Requests[o.request].Options[option].Domain].covers(relation) == nil
		})
	})
	return s.ahead.covered
}
