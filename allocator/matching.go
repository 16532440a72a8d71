package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// matching decides whether open slots can be given devices such that no device, and no
// group of devices, takes more than it can hold: a flow, found by augmenting paths.
// What it leaves out (which counters and capacities go together, constraints between
// open slots) only makes it more generous, so that there is none proves that there is
// no solution below (Hall's theorem, if nothing can be shared).
type matching struct {
	s    *search
	open []opening
	// slots maps a slot to its opening, place to the device it is matched to, or -1.
	slots []int32
	place []int32
	// capacity and load of devices: how many slots one can fill, and fills.
	capacity, load []int32
	// group of a device, -1 if none, with capacity and load.
	group                    []int32
	groupCapacity, groupLoad []int32
	// seen marks what the current augmentation visited; seenSlots over all of it.
	seen, seenGroup, seenSlots *bitset.BitSet
}

// unmatched tries a matching of everything open with counter sets as groups, and one
// for each distinctAttribute over what it covers, with values as groups.
func (s *search) unmatched(open []opening, alt *alternative, n int) bool {
	m := s.newMatching(open)
	m.groupByCounters()
	if m.fails() {
		s.blameOpenings(m.visited(), alt, n)
		s.blameUse(m.visited())
		return true
	}
	for c := range s.in.problem.claims {
		for position, constraint := range s.in.problem.claims[c].constraints {
			distinct, ok := constraint.(distinctAttribute)
			if !ok || s.omitted.constraint(c, position) {
				continue
			}
			m := s.newMatching(covered(open, c, position))
			m.groupByValue(distinct, position)
			if len(m.open) > 0 && m.fails() {
				s.blameOpenings(m.visited(), alt, n)
				s.blameUse(m.visited())
				return true
			}
		}
	}
	return false
}

// covered are the openings of a claim all of whose alternatives a constraint covers.
func covered(open []opening, claim, position int) []opening {
	var some []opening
	for _, o := range open {
		all := o.alternatives[0].claim == claim
		for _, alt := range o.alternatives {
			all = all && alt.covered(position)
		}
		if all {
			some = append(some, o)
		}
	}
	return some
}

func (s *search) newMatching(open []opening) *matching {
	devices := len(s.in.devices)
	m := &matching{
		s: s, open: open,
		capacity: make([]int32, devices),
		load:     make([]int32, devices),
		group:    make([]int32, devices),
		seen:     bitset.New(uint(devices)),
	}
	for o := range open {
		// Admin access takes nothing: there is a device or there is none.
		for range open[o].slots {
			if !open[o].alternatives[0].admin {
				m.slots = append(m.slots, int32(o))
				m.place = append(m.place, -1)
			}
		}
	}
	for i := range m.group {
		m.group[i] = -1
		m.capacity[i] = 1
		if s.in.devices[i].multiple {
			m.capacity[i] = m.sharesLeft(int32(i))
		}
	}
	m.seenSlots = bitset.New(uint(len(m.slots)))
	return m
}

// sharesLeft is how many shares a device can hold at most, no more than there are slots.
func (m *matching) sharesLeft(i int32) int32 {
	least := m.leastUse(i)
	fits := int32(len(m.slots))
	for p, part := range least {
		taken := m.s.consumption(i, p, part.name)
		for n := int32(0); n < fits; n++ {
			if taken = taken.Add(part.taken); taken.Cmp(part.total) > 0 {
				fits = n
			}
		}
	}
	return fits
}

// leastUse is, capacity by capacity, the least that any opening takes of a device. One
// opening may need little of one capacity, and another little of the next: no opening
// alone says how many shares can be had together.
func (m *matching) leastUse(i int32) []consumptionPart {
	var least []consumptionPart
	for _, o := range m.open {
		for _, alt := range o.alternatives {
			use := m.s.in.alternatives[alt.id].domain.uses[i]
			if use == nil || !o.viable.Test(uint(i)) {
				continue
			}
			if least == nil {
				least = slices.Clone(use.parts)
			}
			for p := range least {
				least[p].taken = lesser(least[p].taken, use.parts[p].taken)
			}
		}
	}
	return least
}

// groupByCounters makes each counter set a group. It can hold as many devices as the
// cheapest viable ones leave room for, counter by counter.
func (m *matching) groupByCounters() {
	type set struct {
		pool int32
		set  pools.CounterSetIndex
	}
	groups := make(map[set]int32)
	var members [][]int32
	for i := range m.s.in.devices {
		d := &m.s.in.devices[i]
		if len(d.Uses) == 0 || !m.s.charges(int32(i)) || !m.viable(uint(i)) {
			continue
		}
		key := set{d.pool, m.s.in.pools[d.pool].pool.Counters[d.Uses[0].Counter].Set}
		g, known := groups[key]
		if !known {
			g = int32(len(members))
			groups[key] = g
			members = append(members, nil)
		}
		m.group[i] = g
		members[g] = append(members[g], int32(i))
	}
	for g := range members {
		m.groupCapacity = append(m.groupCapacity, m.s.devicesLeft(members[g], int32(len(m.slots)))*m.shareFactor(members[g]))
	}
	m.groupLoad = make([]int32, len(members))
	m.seenGroup = bitset.New(uint(len(members)))
}

// shareFactor allows for devices that are charged once and then shared.
func (m *matching) shareFactor(members []int32) int32 {
	most := int32(1)
	for _, i := range members {
		most = max(most, m.capacity[i])
	}
	return most
}

func (m *matching) viable(i uint) bool {
	for o := range m.open {
		if m.open[o].viable.Test(i) {
			return true
		}
	}
	return false
}

// devicesLeft is how many of the members their counters can pay for, at most limit.
func (s *search) devicesLeft(members []int32, limit int32) int32 {
	first := &s.in.devices[members[0]]
	for _, use := range first.Uses {
		cheapest := use.Amount
		for _, i := range members {
			cheapest = lesser(cheapest, usedOf(s.in.devices[i].Uses, use.Counter))
		}
		left := s.pools[first.pool].left[use.Counter]
		for n := int32(0); n < limit; n++ {
			if left = left.Sub(cheapest); left.Sign() < 0 {
				limit = n
			}
		}
	}
	return limit
}

func usedOf(uses []pools.CounterUse, counter pools.CounterIndex) amount.Amount {
	for _, use := range uses {
		if use.Counter == counter {
			return use.Amount
		}
	}
	return amount.Amount{}
}

func lesser(a, b amount.Amount) amount.Amount {
	if b.Cmp(a) < 0 {
		return b
	}
	return a
}

// groupByValue makes each value of the attribute that a constraint compares a group
// for one device. A device with a list of values stands for the most common of them.
func (m *matching) groupByValue(distinct distinctAttribute, position int) {
	common := make(map[pools.Value]int)
	for i := range m.s.in.devices {
		for _, v := range distinct.compared(m.valueOf(i, position)) {
			common[v]++
		}
	}
	groups := make(map[pools.Value]int32)
	for i := range m.s.in.devices {
		best, found := pools.Value{}, false
		for _, v := range distinct.compared(m.valueOf(i, position)) {
			if !found || common[v] > common[best] {
				best, found = v, true
			}
		}
		if !found {
			continue
		}
		if _, known := groups[best]; !known {
			groups[best] = int32(len(groups))
		}
		m.group[i] = groups[best]
	}
	m.groupLoad = make([]int32, len(groups))
	for range groups {
		m.groupCapacity = append(m.groupCapacity, 1)
	}
	m.seenGroup = bitset.New(uint(len(groups)))
}

// valueOf is the attribute of a viable device, if all openings see the same.
func (m *matching) valueOf(i, position int) (seen pools.Attribute) {
	for o := range m.open {
		if !m.open[o].viable.Test(uint(i)) {
			continue
		}
		for _, alt := range m.open[o].alternatives {
			if len(alt.derived) > 0 {
				return pools.Attribute{}
			}
			k := slices.Index(alt.constraints, position)
			seen = m.s.in.alternatives[alt.id].values[k][m.s.in.devices[i].Shape].value
		}
	}
	return seen
}
