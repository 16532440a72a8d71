package allocator

import "github.com/bits-and-blooms/bitset"

// matching checks by Hall's theorem that the requests which are still open can get
// different devices: a bipartite matching of slots to devices, found by augmenting
// paths. Constraints, counters and capacities are left out, so a matching proves
// nothing; that there is none proves that there is no solution below.
type matching struct {
	s *search
	// owner is the slot that has a device, by device; -1 if free.
	owner []int32
	// slots holds the domain of each slot matched so far.
	slots []*bitset.BitSet
	// seen marks the devices visited while augmenting.
	seen *bitset.BitSet
}

// starved reports whether the requests from (c, r) on cannot all get devices of their
// own. Requests with several alternatives, with admin access or that can share
// devices are left out: they need none, or none in particular.
func (s *search) starved(c, r int) bool {
	m := matching{s: s, owner: make([]int32, len(s.in.devices)), seen: bitset.New(uint(len(s.in.devices)))}
	for i := range m.owner {
		m.owner[i] = -1
	}
	for ; c < len(s.in.problem.claims); c, r = c+1, 0 {
		for ; r < len(s.in.problem.claims[c].requests); r++ {
			if !s.omitted.request(c, r) && !m.request(&s.in.problem.claims[c].requests[r]) {
				return true
			}
		}
	}
	return false
}

// request matches all slots of a request. False: there is no matching.
func (m *matching) request(r *request) bool {
	alt := r.alternatives[0]
	b := &m.s.in.alternatives[alt.id]
	if len(r.alternatives) > 1 || alt.admin || alt.all || m.s.in.shares(b) {
		return true
	}
	for range b.needed {
		m.slots = append(m.slots, b.domain.allowed)
		m.seen.ClearAll()
		if !m.augment(int32(len(m.slots) - 1)) {
			return false
		}
	}
	return true
}

// augment finds a device for a slot, moving slots matched before if it must.
func (m *matching) augment(slot int32) bool {
	domain := m.slots[slot]
	for i, ok := domain.NextSet(0); ok; i, ok = domain.NextSet(i + 1) {
		if m.s.holders[i] > 0 || m.seen.Test(i) {
			continue
		}
		m.seen.Set(i)
		if m.owner[i] < 0 || m.augment(m.owner[i]) {
			m.owner[i] = slot
			return true
		}
	}
	return false
}

// shares reports whether a candidate of the alternative allows multiple allocations.
func (in *instance) shares(b *bound) bool {
	for i, ok := b.domain.allowed.NextSet(0); ok; i, ok = b.domain.allowed.NextSet(i + 1) {
		if in.devices[i].multiple {
			return true
		}
	}
	return false
}
