package allocator

// fails reports whether some slot cannot be matched. The slots visited in vain are then
// those that compete for too few devices.
func (m *matching) fails() bool {
	for slot := range m.slots {
		if m.place[slot] >= 0 || m.settle(int32(slot)) {
			continue
		}
		m.s.stats.Steps++
		m.seen.ClearAll()
		m.seenGroup.ClearAll()
		m.seenSlots.ClearAll()
		if !m.augment(int32(slot)) {
			return true
		}
	}
	return false
}

// settle puts a slot on a device that has room.
func (m *matching) settle(slot int32) bool {
	o := &m.open[m.slots[slot]]
	for i, ok := o.next(0); ok; i, ok = o.next(i + 1) {
		if at := m.spot(o, i); m.hasRoom(at) && !m.holds(slot, at) {
			m.put(slot, at)
			return true
		}
	}
	return false
}

// augment finds a device for a slot, moving other slots if it must.
func (m *matching) augment(slot int32) bool {
	m.seenSlots.Set(uint(slot))
	o := &m.open[m.slots[slot]]
	for i, ok := o.next(0); ok; i, ok = o.next(i + 1) {
		if at := m.spot(o, i); !m.seen.Test(uint(at)) && m.hasRoom(at) && !m.holds(slot, at) {
			m.put(slot, at)
			return true
		}
	}
	for i, ok := o.next(0); ok; i, ok = o.next(i + 1) {
		at := m.spot(o, i)
		if m.seen.Test(uint(at)) || m.holds(slot, at) || !m.free(at) {
			continue
		}
		m.put(slot, at)
		return true
	}
	return false
}

// free makes room in a spot and in its group, if need be by moving a slot away.
func (m *matching) free(at int32) bool {
	m.seen.Set(uint(at))
	if m.load[at] >= m.capacity[at] {
		if m.capacity[at] == 1 {
			slot := m.tenant[at]
			return !m.seenSlots.Test(uint(slot)) && m.augment(slot)
		}
		return m.moveOne(func(other int32) bool { return other == at })
	}
	g := m.groupAt(at)
	if g < 0 || m.groupLoad[g] < m.groupCapacity[g] {
		return true
	}
	if m.seenGroup.Test(uint(g)) {
		return false
	}
	m.seenGroup.Set(uint(g))
	return m.moveOne(func(other int32) bool { return m.groupAt(other) == g })
}

// moveOne finds another spot for one of the slots matched to certain ones.
func (m *matching) moveOne(from func(spot int32) bool) bool {
	for slot, at := range m.place {
		if at >= 0 && from(at) && !m.seenSlots.Test(uint(slot)) && m.augment(int32(slot)) {
			return true
		}
	}
	return false
}

// put matches a slot to a spot, instead of the one it had.
func (m *matching) put(slot, at int32) {
	if old := m.place[slot]; old >= 0 {
		m.count(old, -1)
	}
	m.place[slot], m.tenant[at] = at, slot
	m.count(at, 1)
}

func (m *matching) count(at, by int32) {
	m.load[at] += by
	if g := m.groupAt(at); g >= 0 {
		m.groupLoad[g] += by
	}
}

// visited are the openings of the slots that the failed augmentation came across.
func (m *matching) visited() []opening {
	var some []opening
	last := int32(-1)
	for slot, ok := m.seenSlots.NextSet(0); ok; slot, ok = m.seenSlots.NextSet(slot + 1) {
		if o := m.slots[slot]; o != last {
			some = append(some, m.open[o])
			last = o
		}
	}
	return some
}
