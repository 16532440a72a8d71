package solver

import "slices"

// Reasons are worked out when there is a failure. A refusal is for good, so what stands against
// a device now is a reason for which it was taken out of a domain before.

// blame adds the decisions because of which a device is refused.
func (s *search) blame(to *levels, domain, i int32, why refusal, cover int) {
	d := &s.p.Domains[domain]
	switch why {
	case refusedTaken:
		s.blameIf(to, func(c Choice) bool {
			return c.Device == i && (!d.Admin || s.p.Requests[c.Request].Claim == d.Claim)
		})
	case refusedRoom:
		s.blameIf(to, func(c Choice) bool { return c.Device == i })
	case refusedDraws:
		s.blameIf(to, func(c Choice) bool { return s.competes(c.Device, i) })
	case refusedRelation, refusedStop:
		relation := d.Covers[cover].Relation
		s.blameIf(to, func(c Choice) bool { return s.domainOf(c).covers(relation) != nil })
	}
}

func (s *search) blameIf(to *levels, guilty func(Choice) bool) {
	for j, c := range s.chosen {
		if !to.has(s.levels[j]) && guilty(c) {
			to.add(s.levels[j])
		}
	}
}

func (s *search) domainOf(c Choice) *Domain {
	return &s.p.Domains[s.p.Requests[c.Request].Options[c.Option].Domain]
}

// competes reports whether two devices draw on the same resource, or are in the same group
// relation.
func (s *search) competes(a, b int32) bool {
	x, y := &s.p.Devices[a], &s.p.Devices[b]
	if x.Pool < 0 || y.Pool < 0 {
		return false
	}
	return slices.ContainsFunc(x.Draws, func(draw Draw) bool {
		return slices.ContainsFunc(y.Draws, func(other Draw) bool { return draw.Resource == other.Resource })
	}) || slices.ContainsFunc(x.Groups, func(g Group) bool {
		return slices.ContainsFunc(y.Groups, func(other Group) bool { return g.Relation == other.Relation })
	})
}

// blameDomain blames whatever stands against the devices of a domain from a position on, or with an
// order of its own against all: that blames more than needed.
func (s *search) blameDomain(to *levels, domain int32, from uint) {
	d, viable := &s.p.Domains[domain], s.ahead.viable[domain]
	if d.Order != nil {
		from = 0
	}
	related := -1 // the cover of which the relation was blamed last: it is the same for all devices
	for i, ok := d.Allowed.NextSet(from); ok; i, ok = d.Allowed.NextSet(i + 1) {
		if viable.Test(i) {
			continue
		}
		why, cover := s.refuses(d, int32(i))
		if why == accepted || why == refusedRelation && cover == related {
			continue
		}
		if why == refusedRelation {
			related = cover
		}
		s.blame(to, domain, int32(i), why, cover)
	}
}

// blameSlot blames what slot n depends on in its own request: the device before it, and the
// option picked.
func (s *search) blameSlot(to *levels, p int32, n int) {
	if n > 0 {
		to.add(s.levels[len(s.levels)-1])
	}
	s.blamePick(to, p)
}

func (s *search) blamePick(to *levels, p int32) {
	if len(s.p.Requests[p].Options) > 1 {
		to.add(s.pickedAt[p])
	}
}

// blameOpenings sets the conflict to what narrows some openings: what stands against their
// devices, and what was taken from the resources that these need.
func (s *search) blameOpenings(open []opening, n int) {
	conflict := s.noLevels()
	seen := s.ahead.seen
	clear(seen)
	for k := range open {
		o := &open[k]
		options := s.p.Requests[o.request].Options
		if o.rest {
			options = options[o.options[0] : o.options[0]+1]
		}
		// What makes an option impossible is a reason, too.
		for k := range options {
			if domain := options[k].Domain; !seen[domain] {
				// From the first device on, which blames more than needed for some.
				seen[domain] = true
				s.blameDomain(&conflict, domain, 0)
			}
		}
		if o.rest {
			s.blameSlot(&conflict, o.request, n)
		}
	}
	s.blameUse(&conflict, open)
	s.blameOn(conflict)
}

// blameUse blames what was taken from what the devices of some openings draw on.
func (s *search) blameUse(to *levels, open []opening) {
	if len(s.p.Left) == 0 && !s.ahead.shareable {
		return
	}
	needed := s.ahead.needed
	needed.ClearAll()
	shared := false
	for k := range open {
		viable := open[k].viable
		if k > 0 && viable == open[k-1].viable {
			continue
		}
		for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
			d := &s.p.Devices[i]
			shared = shared || d.Shareable
			for _, draw := range d.Draws {
				needed.Set(uint(draw.Resource))
			}
		}
	}
	s.blameIf(to, func(c Choice) bool {
		if shared && s.p.Devices[c.Device].Shareable {
			return true
		}
		return slices.ContainsFunc(s.p.Devices[c.Device].Draws, func(draw Draw) bool { return needed.Test(uint(draw.Resource)) })
	})
}
