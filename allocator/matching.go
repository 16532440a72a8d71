package allocator

import "github.com/bits-and-blooms/bitset"

// matching decides whether open slots can be given devices such that no device, and no
// group of devices, takes more than it can hold: a flow, found by augmenting paths. A device
// that is not shared is there once for each party, in different spots.
// What it leaves out (which counters and capacities go together, constraints between
// open slots) only makes it more generous, so that there is none proves that there is
// no solution below (Hall's theorem, if nothing can be shared).
type matching struct {
	s    *search
	open []opening
	// slots maps a slot to its opening, place to the spot it is matched to, or -1.
	slots []int32
	place []int32
	// copies counts the spots on each device that there is an opening for, if that can be
	// more than one.
	copies []int32
	copied bool
	// capacity and load of spots: how many slots one can fill, and fills.
	capacity, load []int32
	// tenant is the slot that came last to a spot.
	tenant []int32
	// group of a device, -1 if none, with capacity and load. Nil if there are no groups.
	group                    []int32
	groupCapacity, groupLoad []int32
	// seen marks what the current augmentation visited; seenSlots over all of it.
	seen, viable         *bitset.BitSet
	seenGroup, seenSlots bitset.BitSet
	// home is where the slots of each request were matched the last time that all were.
	home [][]int32
	bins []bin
	// binOf is the bin of each device, -1 if it draws on no counters; charged is the same
	// without those that have paid.
	binOf, charged []int32
	// uses, shareables and paying are room to work in.
	uses       [][]consumptionPart
	shareables []int32
	paying     *bitset.BitSet
	// multiple are the devices that can fill several slots, shareable is set if there are any.
	multiple  *bitset.BitSet
	shareable bool
}

func (m *matching) prepare(s *search) {
	devices := len(s.in.devices)
	m.multiple = s.space.set(devices)
	for i := range s.in.devices {
		m.multiple.SetTo(uint(i), s.in.devices[i].multiple)
	}
	m.shareable = m.multiple.Any()
	spots := devices
	if m.shareable {
		spots *= s.parties()
	}
	m.capacity = s.space.counts.take(spots)
	for i := range m.capacity {
		m.capacity[i] = 1
	}
	m.copies = s.space.counts.take(devices)
	m.load, m.tenant = s.space.counts.take(spots), s.space.counts.take(spots)
	m.seen, m.viable, m.paying = s.space.set(spots), s.space.set(devices), s.space.set(devices)
	m.home = s.space.lists.take(len(s.foresight.requests))
	for p, r := range s.foresight.requests {
		most := 0
		for _, alt := range r.alternatives {
			most = max(most, s.in.alternatives[alt.id].needed)
		}
		m.home[p] = s.space.counts.take(most)[:0]
	}
	m.bins, m.binOf = s.in.counters().bins, s.in.counters().binOf
}

// emptied is a matching in the same memory.
func (m *matching) emptied() matching {
	clear(m.uses[:cap(m.uses)])
	return matching{
		slots: m.slots[:0], place: m.place[:0], groupCapacity: m.groupCapacity[:0], groupLoad: m.groupLoad[:0],
		charged: m.charged[:0], uses: m.uses[:0], shareables: m.shareables[:0], seenGroup: m.seenGroup, seenSlots: m.seenSlots,
	}
}

// unmatched tries a matching of everything open with counter sets as groups, and one
// for each distinctAttribute over what it covers, with values as groups.
func (s *search) unmatched(open []opening, alt *alternative, n int) bool {
	f, m := s.foresight, &s.foresight.matching
	f.sharing = s.contend(f.sharing[:0], open, everyClaim)
	m.begin(s, f.sharing)
	m.groupByCounters()
	m.goHome()
	if m.fails() {
		s.blameMatching(alt, n)
		return true
	}
	m.moveIn()
	if s.cramped(f.sharing) || s.crowded(open) {
		s.blameMatching(alt, n)
		return true
	}
	for _, table := range s.foresight.distincts {
		m.begin(s, s.covered(open, table.at))
		m.groupByValue(table)
		if len(m.open) > 0 && m.fails() {
			s.blameMatching(alt, n)
			return true
		}
	}
	return false
}

// crowded tries a matching for each claim that wants admin access to some devices: within
// a claim, all devices differ, and what it has is not for later claims to choose.
func (s *search) crowded(open []opening) bool {
	f := s.foresight
	for i := range open {
		first := open[i].alternatives[0]
		if !first.admin || i > 0 && open[i-1].alternatives[0].claim == first.claim && open[i-1].alternatives[0].admin {
			continue
		}
		f.crowd = s.contend(f.crowd[:0], open, first.claim)
		if s.unmatchable(f.crowd) || s.cramped(f.crowd) {
			return true
		}
	}
	return false
}

func (s *search) blameMatching(alt *alternative, n int) {
	visited := append(s.foresight.matching.visited(), s.foresight.reserved...)
	s.blameOpenings(visited, alt, n)
	s.blameUse(visited)
}

// covered are the openings of a claim all of whose possible alternatives a constraint
// covers. What is needed before an error may well violate it: that is the error.
func (s *search) covered(open []opening, at claimConstraint) []opening {
	f := s.foresight
	f.covered = f.covered[:0]
	for i := range open {
		if f.covers(&open[i], at) {
			f.covered = append(f.covered, open[i])
		}
	}
	return f.covered
}

func (f *foresight) covers(o *opening, at claimConstraint) bool {
	if o.entry || o.alternatives[0].claim != at.claim {
		return false
	}
	for _, alt := range o.possible {
		if !alt.covered(at.position) {
			return false
		}
	}
	return true
}

// begin starts a matching of some openings, which are known to be for different devices or
// different shares of them.
func (m *matching) begin(s *search, open []opening) {
	m.s, m.open, m.group = s, open, nil
	m.slots, m.place = m.slots[:0], m.place[:0]
	clear(m.load)
	m.viable.ClearAll()
	for o := range open {
		m.viable.InPlaceUnion(open[o].viable)
		for range open[o].slots {
			m.slots = append(m.slots, int32(o))
			m.place = append(m.place, -1)
		}
	}
	if m.shareable {
		for i, ok := m.viable.NextSet(0); ok; i, ok = m.viable.NextSet(i + 1) {
			if s.in.devices[i].multiple {
				m.capacity[i] = m.sharesLeft(int32(i))
			}
		}
	}
}

// goHome puts slots where they were the last time, as far as they still can be there.
func (m *matching) goHome() {
	for slot := 0; slot < len(m.slots); {
		o := m.slots[slot]
		for _, at := range m.home[m.open[o].position] {
			if slot < len(m.slots) && m.slots[slot] == o && m.open[o].has(m.deviceAt(at)) && m.hasRoom(at) && !m.holds(int32(slot), at) {
				m.put(int32(slot), at)
				slot++
			}
		}
		for slot < len(m.slots) && m.slots[slot] == o {
			slot++
		}
	}
}

// holds reports whether a slot of the same opening has a share of the device already: no
// request takes two.
func (m *matching) holds(slot, at int32) bool {
	if m.capacity[at] == 1 {
		return false
	}
	o := m.slots[slot]
	for k := slot; k >= 0 && m.slots[k] == o; k-- {
		if m.place[k] == at {
			return true
		}
	}
	for k := int(slot) + 1; k < len(m.slots) && m.slots[k] == o; k++ {
		if m.place[k] == at {
			return true
		}
	}
	return false
}

func (m *matching) hasRoom(at int32) bool {
	g := m.groupAt(at)
	return m.load[at] < m.capacity[at] && (g < 0 || m.groupLoad[g] < m.groupCapacity[g])
}

// moveIn remembers where slots are.
func (m *matching) moveIn() {
	for o := range m.open {
		m.home[m.open[o].position] = m.home[m.open[o].position][:0]
	}
	for slot, at := range m.place {
		position := m.open[m.slots[slot]].position
		m.home[position] = append(m.home[position], at)
	}
}

func (m *matching) setGroups(of []int32, capacity []int32) {
	m.group, m.groupCapacity = of, capacity
	m.groupLoad = append(m.groupLoad[:0], make([]int32, len(capacity))...)
}

// groupByCounters makes each counter set a group.
func (m *matching) groupByCounters() {
	if len(m.bins) == 0 {
		return
	}
	m.countCopies()
	m.charged = append(m.charged[:0], m.binOf...)
	capacities := m.groupCapacity[:0]
	for b := range m.bins {
		capacities = append(capacities, m.binCapacity(&m.bins[b]))
	}
	m.setGroups(m.charged, capacities)
}

// groupByValue makes each value that devices must differ in a group for one device.
func (m *matching) groupByValue(t *valueTable) {
	capacities := m.groupCapacity[:0]
	for range t.count {
		capacities = append(capacities, 1)
	}
	m.setGroups(t.groups, capacities)
}
