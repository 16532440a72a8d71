package allocator

import "slices"

// Requests for admin access have what others have: a matching of all that is open, in which a
// device that is not shared serves one slot, would ask for too much. So openings are of parties,
// and such a device serves a slot of each. Of shares, all parties ask together.

// everyClaim is the view of a matching in which everything but admin access is one party. In
// that of a claim it is all that the claim has, which differs, and all that later claims have
// without admin access: what a claim has is not for them to choose.
const everyClaim = -1

// parties is how many there are at most: those without admin access before the claim of a view
// and from there on, and the admin access of each claim.
func (s *search) parties() int {
	n := 2
	for c := range s.in.problem.claims {
		if s.in.problem.claims[c].hasAdmin() {
			n++
		}
	}
	if n == 2 {
		return 1
	}
	return n
}

func (c *claim) hasAdmin() bool {
	for r := range c.requests {
		if c.requests[r].alternatives[0].admin {
			return true
		}
	}
	return false
}

// contend collects openings for a matching. If nothing is shared, those of the first party
// are enough.
func (s *search) contend(to, open []opening, view int) []opening {
	last, claim := int32(1), -1
	s.foresight.reserved = s.foresight.reserved[:0]
	for _, o := range open {
		first := o.alternatives[0]
		switch {
		case first.claim == view, !first.admin && first.claim > view:
			o.party = 0
		case !first.admin:
			o.party = 1
		case first.claim != claim:
			last, claim = last+1, first.claim
			fallthrough
		default:
			o.party = last
		}
		if o.party == 0 || s.foresight.matching.shareable && !o.entry {
			to = append(to, o)
		}
	}
	s.reserveValues(to)
	for n := 0; n < maxReserves && s.reserve(to); n++ {
	}
	return to
}

// spot is where a slot of an opening can be on a device.
func (m *matching) spot(o *opening, device uint) int32 {
	at := int32(device)
	if o.party == 0 || m.s.in.devices[device].multiple {
		return at
	}
	return at + o.party*int32(len(m.s.in.devices))
}

// deviceAt is the device of a spot.
func (m *matching) deviceAt(spot int32) uint { return uint(spot) % uint(len(m.s.in.devices)) }

// groupAt is the group of a spot, -1 if it is in none.
func (m *matching) groupAt(spot int32) int32 {
	if len(m.group) == 0 {
		return -1
	}
	return m.group[m.deviceAt(spot)]
}

// countCopies counts the spots that openings can have on each device.
func (m *matching) countCopies() {
	m.copied = slices.ContainsFunc(m.open, func(o opening) bool { return o.party > 0 })
	if !m.copied {
		return
	}
	clear(m.copies)
	m.seen.ClearAll()
	for o := range m.open {
		for i, ok := m.open[o].next(0); ok; i, ok = m.open[o].next(i + 1) {
			if at := uint(m.spot(&m.open[o], i)); !m.seen.Test(at) {
				m.seen.Set(at)
				m.copies[i]++
			}
		}
	}
}

// charges is how often the counters of a device may be charged: for each spot, while all shares
// are charged once.
func (m *matching) charges(i int32) int32 {
	if !m.copied || m.s.in.devices[i].multiple {
		return 1
	}
	return m.copies[i]
}
