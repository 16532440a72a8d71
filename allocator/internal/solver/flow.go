package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// flow decides whether openings can be given devices such that no device, and no group of
// devices, serves more than it can, by augmenting paths. What a flow leaves out makes it more
// generous only, so that there is none proves that there is no solution (Hall's theorem, where
// nothing is shared).
type flow struct {
	open []opening
	// held are the devices that openings have, by request. They are kept for the next time.
	held []*bitset.BitSet
	// room is how many more openings can have a device; full are those that no more can have.
	// Whole is the room of devices that nobody has, 0 for those that are shareable.
	room, whole []int32
	full        *bitset.BitSet
	// group is that of each device, -1 for none, of which one device can serve, load how many do. Nil without
	// groups.
	group, load []int32
	// seen are the devices, groups and openings that the current augmentation visited.
	seen, seenOpen *bitset.BitSet
	seenGroups     bitset.BitSet
}

func (s *search) newFlow() flow {
	n, requests := len(s.p.Devices), len(s.p.Requests)
	f := flow{
		held: s.memory.setLists.Take(requests), room: s.memory.counts.Take(n), whole: s.memory.counts.Take(n), full: s.memory.sets.New(n),
		seen: s.memory.sets.New(n), seenOpen: s.memory.sets.New(requests),
	}
	for i := range s.p.Devices {
		if !s.p.Devices[i].Shareable {
			f.whole[i] = 1
		}
	}
	return f
}

// fails reports whether some slot can have no device. Of each group of devices, one can serve.
func (f *flow) fails(s *search, open []opening, group []int32, groups int) bool {
	if len(open) < 2 && group == nil {
		return false // it has as many as it needs
	}
	f.group, f.load = group, slices.Grow(f.load[:0], groups)[:groups]
	clear(f.load)
	f.begin(s, open)
	for k := range open {
		for have := int(f.holds(k).Count()); have < open[k].slots; have++ {
			if f.find(k) {
				continue
			}
			s.stats.Steps++
			f.seen.ClearAll()
			f.seenOpen.ClearAll()
			f.seenGroups.ClearAll()
			if !f.augment(k) {
				return true
			}
		}
	}
	return false
}

// begin leaves openings what they had the last time, as far as they still can have it.
func (f *flow) begin(s *search, open []opening) {
	f.open = open
	copy(f.room, f.whole)
	f.full.ClearAll()
	for _, i := range s.ahead.shareable {
		f.room[i] = s.sharesLeft(open, i)
		f.full.SetTo(uint(i), f.room[i] == 0)
	}
	for k := range open {
		if f.held[open[k].request] == nil {
			f.held[open[k].request] = s.memory.sets.New(len(s.p.Devices))
		}
		held, have := f.holds(k), 0
		for i, ok := held.NextSet(0); ok; i, ok = held.NextSet(i + 1) {
			if have == open[k].slots || !open[k].has(i) || f.full.Test(i) || !f.groupHasRoom(i) {
				held.Clear(i)
				continue
			}
			f.count(i, 1)
			have++
		}
	}
}

// holds are the devices of an opening.
func (f *flow) holds(k int) *bitset.BitSet { return f.held[f.open[k].request] }

// find gives an opening a device that has room.
func (f *flow) find(k int) bool {
	o, held := &f.open[k], f.holds(k)
	for i, ok := o.next(0, held, f.full); ok; i, ok = o.next(i+1, held, f.full) {
		if f.groupHasRoom(i) {
			f.give(k, i)
			return true
		}
	}
	return false
}

// augment gives an opening one more device, moving others if it must.
func (f *flow) augment(k int) bool {
	f.seenOpen.Set(uint(k))
	if f.find(k) {
		return true
	}
	o, held := &f.open[k], f.holds(k)
	for i, ok := o.next(0, held, f.seen); ok; i, ok = o.next(i+1, held, f.seen) {
		f.seen.Set(i)
		if f.free(i) {
			f.give(k, i)
			return true
		}
	}
	return false
}

// free makes room on a device and in its group, if need be by moving an opening away.
func (f *flow) free(i uint) bool {
	if f.full.Test(i) {
		return f.move(func(other uint) bool { return other == i })
	}
	if f.groupHasRoom(i) {
		return true
	}
	g := f.group[i]
	if f.seenGroups.Test(uint(g)) {
		return false
	}
	f.seenGroups.Set(uint(g))
	return f.move(func(other uint) bool { return f.group[other] == g })
}

// move finds an opening another device for one of certain devices.
func (f *flow) move(from func(device uint) bool) bool {
	for k := range f.open {
		held := f.holds(k)
		for i, ok := held.NextSet(0); ok && !f.seenOpen.Test(uint(k)); i, ok = held.NextSet(i + 1) {
			if from(i) && f.augment(k) {
				held.Clear(i)
				f.count(i, -1)
				return true
			}
		}
	}
	return false
}

func (f *flow) groupHasRoom(i uint) bool {
	return f.group == nil || f.group[i] < 0 || f.load[f.group[i]] == 0
}

func (f *flow) give(k int, i uint) {
	f.holds(k).Set(i)
	f.count(i, 1)
}

func (f *flow) count(i uint, by int32) {
	f.room[i] -= by
	f.full.SetTo(i, f.room[i] == 0)
	if f.group != nil && f.group[i] >= 0 {
		f.load[f.group[i]] += by
	}
}

// sharesLeft is how many openings can have a share of a device at most: those that take least,
// resource by resource.
func (s *search) sharesLeft(open []opening, i int32) int32 {
	fits := 0
	for k := range open {
		if open[k].has(uint(i)) {
			fits++
		}
	}
	if fits < 2 {
		return 1
	}
	of := slices.IndexFunc(s.p.Domains, func(d Domain) bool { return d.share(i) != nil })
	if of < 0 {
		return int32(fits)
	}
	var demands []amount.Amount
	for part, draw := range s.p.Domains[of].share(i) {
		demands = demands[:0]
		for k := range open {
			if open[k].has(uint(i)) {
				demands = append(demands, s.leastShare(&open[k], i, part))
			}
		}
		slices.SortFunc(demands, amount.Amount.Cmp)
		left, n := s.left[draw.Resource], 0
		for n < fits && demands[n].Cmp(left) <= 0 {
			left = left.Sub(demands[n])
			n++
		}
		fits = n
	}
	return int32(fits)
}

// leastShare is the least that an opening takes of one of the resources of a device. All shares of a
// device take of the same resources.
func (s *search) leastShare(o *opening, i int32, part int) (least amount.Amount) {
	for n, option := range o.options {
		if share := s.p.Domains[option.Domain].share(i); share == nil {
			return amount.Amount{}
		} else if n == 0 || share[part].Amount.Cmp(least) < 0 {
			least = share[part].Amount
		}
	}
	return least
}
