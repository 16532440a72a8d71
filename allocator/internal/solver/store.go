package solver

import "github.com/dray-project/dray/internal/amount"

// store is what the choices made so far have taken. All writes go through the trail.
type store struct {
	trail
	memory *memory
	p      *Problem
	// left is what is left of each resource, overdrawn how many resources of each pool
	// are below zero.
	left      []amount.Amount
	overdrawn []int32
	// holders counts, by device, the choices of a device that is not shareable, held by
	// claim and device. A claim without choices has no list.
	holders []int32
	held    [][]int32
	// shares counts, by device, the shares chosen.
	shares  []int32
	related []relationState
	// claimed counts the devices chosen by claim.
	claimed []int32
	// had is what the devices of a request give of its totals together, if shares are filled.
	had    [][]amount.Amount
	filled []Draw // room for what fill returns
}

func (s *store) begin(p *Problem, m *memory) {
	s.trail.forget()
	s.p, s.memory = p, m
	s.left = append(m.amounts.Empty(len(p.Left)), p.Left...)
	s.holders, s.shares = m.counts.Take(len(p.Devices)), m.counts.Take(len(p.Devices))
	s.held, s.claimed = m.lists.Take(p.Claims), m.counts.Take(p.Claims)
	s.related = m.relations.Take(len(p.Relations))
	for r := range p.Relations {
		s.related[r] = p.Relations[r].begin()
	}
	s.overdrawn, s.had = nil, nil
	for r, left := range p.Left {
		if pool := p.PoolOf[r]; pool >= 0 && left.Sign() < 0 {
			for int(pool) >= len(s.overdrawn) {
				s.overdrawn = append(s.overdrawn, 0)
			}
			s.overdrawn[pool]++
		}
	}
}

// taken reports whether the choices made so far keep a domain from a device: ordinary
// requests want it for themselves, admin access once per claim.
func (s *store) taken(d *Domain, i int32) bool {
	if d.Admin {
		return s.held[d.Claim] != nil && s.held[d.Claim][i] > 0
	}
	return s.holders[i] > 0
}

// pays reports whether choosing a device takes its draws: only the first share does.
func (s *store) pays(i int32) bool {
	d := &s.p.Devices[i]
	return d.Pool >= 0 && !(d.Shareable && (s.shares[i] > 0 || s.p.Paid != nil && s.p.Paid.Test(uint(i))))
}

// affords reports whether a device's draws and groups let it be chosen.
func (s *store) affords(i int32) bool {
	if !s.pays(i) {
		return true
	}
	d := &s.p.Devices[i]
	for _, g := range d.Groups {
		if !s.p.Relations[g.Relation].admits(s.related[g.Relation], g.Values) {
			return false
		}
	}
	restored := int32(0)
	for _, draw := range d.Draws {
		before := s.left[draw.Resource]
		if before.Cmp(draw.Amount) < 0 {
			return false
		}
		if before.Sign() < 0 {
			restored++
		}
	}
	return int(d.Pool) >= len(s.overdrawn) || s.overdrawn[d.Pool] == restored
}

// room reports whether what a share takes of a device is left.
func (s *store) room(d *Domain, i int32) bool {
	if int(i) >= len(d.Shares) {
		return true
	}
	for _, draw := range d.Shares[i] {
		if s.left[draw.Resource].Cmp(draw.Amount) < 0 {
			return false
		}
	}
	return true
}

// choose takes a device that nothing stands against.
func (s *store) choose(d *Domain, claim, i int32) {
	if s.pays(i) {
		s.pay(&s.p.Devices[i])
	}
	for k := range d.Covers {
		c := &d.Covers[k]
		s.join(c.Relation, c.Values, i)
	}
	s.counts.set(&s.claimed[claim], s.claimed[claim]+1)
	if s.p.Devices[i].Shareable {
		s.counts.set(&s.shares[i], s.shares[i]+1)
		if int(i) < len(d.Shares) {
			s.draw(d.Shares[i])
		}
		return
	}
	if s.held[claim] == nil {
		s.held[claim] = s.memory.counts.Take(len(s.p.Devices))
	}
	s.counts.set(&s.holders[i], s.holders[i]+1)
	s.counts.set(&s.held[claim][i], s.held[claim][i]+1)
}

func (s *store) join(relation int32, values [][]int32, i int32) {
	if r := &s.p.Relations[relation]; !r.Off {
		s.relations.set(&s.related[relation], r.join(s.related[relation], values[i]))
	}
}

func (s *store) pay(d *Device) {
	for _, draw := range d.Draws {
		if s.left[draw.Resource].Sign() < 0 {
			s.counts.set(&s.overdrawn[d.Pool], s.overdrawn[d.Pool]-1)
		}
	}
	s.draw(d.Draws)
	for _, g := range d.Groups {
		r := &s.p.Relations[g.Relation]
		s.relations.set(&s.related[g.Relation], r.join(s.related[g.Relation], g.Values))
	}
}

func (s *store) draw(draws []Draw) {
	for _, draw := range draws {
		s.amounts.set(&s.left[draw.Resource], s.left[draw.Resource].Sub(draw.Amount))
	}
}

// refusal is what stands against a candidate because of the choices made so far.
type refusal uint8

const (
	accepted refusal = iota
	// refusedTaken: the device is chosen already.
	refusedTaken
	// refusedRoom: too little is left for a share of it.
	refusedRoom
	// refusedDraws: too little is left of what it draws on, or its groups do not fit.
	refusedDraws
	// refusedRelation: a relation does not admit it.
	refusedRelation
	// refusedAlways: no choice is to blame.
	refusedAlways
	// refusedStop: looking at it ends the search.
	refusedStop
)

// refuses checks a candidate of a domain. The second result is the position in
// Domain.Covers of the relation that refuses it or stops at it, else -1.
func (s *store) refuses(d *Domain, i int32) (refusal, int) {
	switch {
	case s.taken(d, i):
		return refusedTaken, -1
	case d.Stops != nil && d.Stops.Test(uint(i)):
		return refusedStop, -1
	case !s.room(d, i):
		return refusedRoom, -1
	case !s.affords(i):
		return refusedDraws, -1
	}
	return s.relates(d, i)
}

// relates asks the relations of a domain, in order.
func (s *store) relates(d *Domain, i int32) (refusal, int) {
	for k := range d.Covers {
		c := &d.Covers[k]
		r := &s.p.Relations[c.Relation]
		switch {
		case r.Off:
		case c.Stops != nil && c.Stops.Test(uint(i)):
			return refusedStop, k
		case !r.admits(s.related[c.Relation], c.Values[i]):
			return refusedRelation, k
		}
	}
	return accepted, -1
}

// refusesMandatory checks a device that an option must have. A relation that does not admit
// it ends the search, and only then does it count what shares take.
func (s *store) refusesMandatory(o *Option, i int32) (refusal, int) {
	d := &s.p.Domains[o.Domain]
	late := o.Late != nil && o.Late.Test(uint(i))
	switch {
	case s.taken(d, i):
		return refusedTaken, -1
	case !late && !d.Allowed.Test(uint(i)):
		return refusedAlways, -1
	case !s.affords(i):
		return refusedDraws, -1
	}
	why, k := s.relates(d, i)
	switch {
	case why == refusedRelation:
		return refusedStop, k
	case why != accepted:
		return why, k
	case late:
		return refusedAlways, -1
	case !s.room(d, i):
		return refusedRoom, -1
	}
	return accepted, -1
}
