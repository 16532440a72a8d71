package allocator

import "github.com/bits-and-blooms/bitset"

// What some openings are sure to take is not for others, which a matching cannot see by itself
// if they are of different parties, or if what makes it sure is a constraint.

// maxReserves is how often what others cannot have may lead to more of that.
const maxReserves = 4

// reserve keeps devices for openings that need all they can have, and reports whether that took
// some from others. Without them, fewer alternatives of a prioritized request may be possible.
func (s *search) reserve(open []opening) (found bool) {
	for i := range open {
		needy := &open[i]
		if needy.entry || needy.count() > needy.slots {
			continue
		}
		for k := range open {
			o := &open[k]
			if k == i || len(o.possible) < 2 && o.party == needy.party || o.party != needy.party && !o.differs(needy) {
				continue
			}
			if s.withhold(o, needy.viable, needy.from) {
				s.foresight.reserved = append(s.foresight.reserved, *needy)
				found = true
			}
		}
	}
	return found
}

// reserveValues keeps devices for openings that a distinctAttribute covers and that need all
// the values there are: the only device of a value is theirs.
func (s *search) reserveValues(open []opening) {
	f := s.foresight
	for _, table := range f.distincts {
		some := s.covered(open, table.at)
		if len(some) == 0 {
			continue
		}
		only := s.onlyDevices(some, table)
		if only == nil {
			continue
		}
		for k := range open {
			o := &open[k]
			if !o.entry && !f.covers(o, table.at) && o.differsFromAll(some) && s.withhold(o, only, 0) {
				f.reserved = append(f.reserved, some...)
			}
		}
	}
}

// onlyDevices are the devices without which there are too few values for openings that must
// differ, nil if there are none.
func (s *search) onlyDevices(open []opening, t *valueTable) *bitset.BitSet {
	const several = -1
	f := s.foresight
	slots, values := 0, 0
	f.ofValue = append(f.ofValue[:0], make([]int32, t.count)...)
	for o := range open {
		slots += open[o].slots
		for i, ok := open[o].next(0); ok; i, ok = open[o].next(i + 1) {
			value := t.groups[i]
			if value < 0 {
				return nil
			}
			switch device := int32(i) + 1; f.ofValue[value] {
			case device:
			case 0:
				f.ofValue[value] = device
				values++
			default:
				f.ofValue[value] = several
			}
		}
	}
	if values > slots {
		return nil
	}
	only := f.union(len(s.in.devices))
	for _, device := range f.ofValue {
		if device > 0 {
			only.Set(uint(device - 1))
		}
	}
	return only
}

// withhold takes devices that are not shared, from one on, from what is viable for an opening.
func (s *search) withhold(o *opening, devices *bitset.BitSet, from uint) bool {
	var left *bitset.BitSet
	for i, ok := devices.NextSet(from); ok; i, ok = devices.NextSet(i + 1) {
		if s.in.devices[i].multiple || !o.has(i) {
			continue
		}
		if left == nil {
			left = s.foresight.union(len(s.in.devices))
			o.viable.CopyFull(left)
		}
		left.Clear(i)
	}
	if left == nil {
		return false
	}
	o.viable = left
	if len(o.possible) > 1 && !o.entry {
		s.confine(o, func(int32) *bitset.BitSet { return left })
	}
	return true
}

// differsFromAll reports whether none of some openings can have a device that is not shared
// at the same time.
func (o *opening) differsFromAll(others []opening) bool {
	for i := range others {
		if !o.differs(&others[i]) {
			return false
		}
	}
	return true
}

// differs reports whether, of devices that are not shared, two openings cannot have the same.
func (o *opening) differs(from *opening) bool {
	a, b := o.alternatives[0], from.alternatives[0]
	if a.claim > b.claim {
		a, b = b, a
	}
	return a.claim == b.claim || !b.admin
}
