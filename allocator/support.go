package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// unsupported reports whether some matchAttribute has no value left that all openings it
// covers can be served with. In a solution they all have one value in common, so there is
// then none below.
func (s *search) unsupported(open []opening, alt *alternative, n int) bool {
	for _, table := range s.foresight.matches {
		some := s.covered(open, table.at)
		if len(some) == 0 || s.supported(some, table) {
			continue
		}
		s.blameOpenings(some, alt, n)
		s.blameUse(some)
		s.blameConstraint(&s.conflict, table.at.claim, table.at.position)
		return true
	}
	return false
}

func (s *search) supported(open []opening, t *valueTable) bool {
	state := s.related[t.at.claim][t.at.position]
	if state.devices == 0 {
		for n := range t.count {
			if v := (t.last + n) % t.count; s.serves(open, t, v) {
				t.last = v
				return true
			}
		}
		return false
	}
	for _, value := range state.values {
		if v, known := t.ids[value]; known && s.serves(open, t, v) {
			return true
		}
	}
	return false
}

// support is how many devices of a value an opening can have.
type support struct{ slots, devices int }

// serves reports whether openings can be served with devices that offer a value.
func (s *search) serves(open []opening, t *valueTable, v int32) bool {
	f := s.foresight
	s.pay(len(open))
	f.supports = f.supports[:0]
	for i := range open {
		offered, ok := s.offering(&open[i], t, v)
		if !ok {
			return false
		}
		f.supports = append(f.supports, offered)
	}
	return !s.undistinct(open, t, v) && (!s.competing() || s.matched(open, t, v))
}

// competing reports whether devices may run out. They do not if even one opening after
// the other, from that with the fewest devices, finds enough left.
func (s *search) competing() bool {
	f := s.foresight
	slices.SortFunc(f.supports, func(a, b support) int { return a.devices - b.devices })
	slots := 0
	for _, each := range f.supports {
		if slots += each.slots; slots > each.devices {
			return true
		}
	}
	return len(f.matching.bins) > 0 && len(f.supports) > 1
}

// offering tells how many slots an opening has, and of how many devices that offer a value, if
// it can be served. Not all of its alternatives may be possible with these devices.
func (s *search) offering(o *opening, t *valueTable, v int32) (support, bool) {
	f := s.foresight
	least, found := support{}, false
	for _, alt := range o.possible {
		d, needed := f.demandOf[alt.id], s.neededBy(o, alt)
		var devices int
		if holding := t.holding(v, d); o.from == 0 {
			devices = int(holding.IntersectionCardinality(f.demands[d].viable))
		} else {
			f.scratch.ClearAll()
			f.scratch.InPlaceUnion(holding)
			f.scratch.InPlaceIntersection(f.demands[d].viable)
			rest := opening{viable: f.scratch, from: o.from}
			devices = rest.count()
		}
		if devices < needed {
			continue
		}
		if !found || needed < least.slots {
			least.slots = needed
		}
		least.devices, found = max(least.devices, devices), true
	}
	return least, found
}

// matched tries a matching of openings with devices that offer a value.
func (s *search) matched(open []opening, t *valueTable, v int32) bool {
	f := s.foresight
	mark := len(f.unions)
	f.narrowed = append(f.narrowed[:0], open...)
	for i := range open {
		same := slices.IndexFunc(open[:i], func(other opening) bool { return other.viable == open[i].viable })
		if same >= 0 {
			f.narrowed[i].viable = f.narrowed[same].viable
		} else {
			s.confine(&f.narrowed[i], func(demand int32) *bitset.BitSet { return t.holding(v, demand) })
		}
	}
	fails := s.unmatchable(f.narrowed)
	f.unions = f.unions[:mark]
	return !fails
}

// undistinct reports whether the devices that offer a value of a matchAttribute have too few
// values for a distinctAttribute that covers some of the openings, too.
func (s *search) undistinct(open []opening, t *valueTable, v int32) bool {
	return slices.ContainsFunc(s.foresight.distincts, func(distinct *valueTable) bool {
		return distinct.at.claim == t.at.claim && s.tooAlike(open, distinct, t, v)
	})
}

func (s *search) tooAlike(open []opening, distinct, t *valueTable, v int32) bool {
	f, slots := s.foresight, 0
	f.differ.ClearAll()
	for i := range open {
		if f.covers(&open[i], distinct.at) {
			slots += open[i].slots
		}
	}
	for i := range open {
		if f.covers(&open[i], distinct.at) {
			slots -= f.addDiffering(&open[i], distinct, t, v, slots)
		}
	}
	return slots > 0
}

// addDiffering counts the values, up to a limit, that differ from those counted before, of
// devices that offer another value. A device that no single value stands for counts, and again
// for each opening if it is shared: requests may see different values of it.
func (f *foresight) addDiffering(o *opening, distinct, t *valueTable, v int32, limit int) (count int) {
	for _, alt := range o.possible {
		d := f.demandOf[alt.id]
		holding := t.holding(v, d)
		for i, ok := holding.NextSet(o.from); ok && count < limit; i, ok = holding.NextSet(i + 1) {
			value, repeated := uint(distinct.groups[i]), false
			if distinct.groups[i] < 0 {
				value, repeated = uint(distinct.count)+i, f.matching.multiple.Test(i)
			}
			if f.demands[d].viable.Test(i) && (repeated || !f.differ.Test(value)) {
				f.differ.Set(value)
				count++
			}
		}
	}
	return count
}

// dropUnsupported leaves out, before the first decision, candidates that offer no value
// with which everything that must match could be served. No solution has them; in a
// literal instance, the way to an error might.
func (s *search) dropUnsupported() {
	if s.in.literal {
		return
	}
	for range maxDrops {
		open, dropped := s.openings(nil, 0, 0), false
		for _, table := range s.foresight.matches {
			some := s.covered(open, table.at)
			if len(some) == 0 {
				continue
			}
			values := s.supportedValues(some, table)
			for _, d := range table.demands {
				dropped = s.drop(&s.foresight.demands[d], s.supporting(values, table, d)) || dropped
			}
		}
		if !dropped {
			return
		}
	}
}

// maxDrops is how often what was left out may lead to more.
const maxDrops = 4

// supportedValues are those with which openings can be served.
func (s *search) supportedValues(open []opening, t *valueTable) []int32 {
	values := s.space.counts.take(int(t.count))[:0]
	for v := range t.count {
		if s.serves(open, t, v) {
			values = append(values, v)
		}
	}
	return values
}

// supporting are the devices of a demand that offer one of some values.
func (s *search) supporting(values []int32, t *valueTable, demand int32) *bitset.BitSet {
	devices := s.space.set(len(s.in.devices))
	for _, v := range values {
		devices.InPlaceUnion(t.holding(v, demand))
	}
	return devices
}

// drop leaves only some devices viable.
func (s *search) drop(d *demand, keep *bitset.BitSet) bool {
	before := d.viable.Count()
	d.viable.InPlaceIntersection(keep)
	return d.viable.Count() < before
}
