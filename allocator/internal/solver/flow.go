package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// flow decides whether open slots can be given devices such that no device, and no group of
// devices, takes more than it can hold, by augmenting paths. A slot is a device that an opening
// needs. What a flow leaves out makes it more generous only, so that there is none proves that
// there is no solution (Hall's theorem, where nothing is shared).
type flow struct {
	open []opening
	// slots maps a slot to its opening, place to its device, or -1.
	slots, place []int32
	// capacity and load of devices: how many slots one can fill, and fills. tenant is the
	// slot that came last.
	capacity, load, tenant []int32
	// group is that of each device, -1 for none, with capacity and load. Nil without groups.
	group                []int32
	groupRoom, groupLoad []int32
	// vacant are the devices that hold fewer slots than they can.
	vacant *bitset.BitSet
	// seen are what the current augmentation visited.
	seen                 *bitset.BitSet
	seenGroup, seenSlots bitset.BitSet
	// rivals is the result of visited.
	rivals []opening
	// home is where the slots of each request were the last time that all had a device.
	home [][]int32
}

func (f *flow) prepare(s *search) {
	n := len(s.p.Devices)
	f.capacity, f.load, f.tenant = s.memory.counts.Take(n), s.memory.counts.Take(n), s.memory.counts.Take(n)
	for i := range f.capacity {
		f.capacity[i] = 1
	}
	f.seen, f.vacant = s.memory.sets.New(n), s.memory.sets.New(n)
	f.home = s.memory.lists.Take(len(s.p.Requests))
	for p := range f.home {
		most := 0
		for _, o := range s.p.Requests[p].Options {
			most = max(most, o.Count)
		}
		f.home[p] = s.memory.counts.Empty(most)
	}
}

// release drops what belongs to a problem.
func (f *flow) release() {
	clear(f.rivals[:cap(f.rivals)])
	*f = flow{
		rivals: f.rivals[:0],
		slots:  f.slots[:0], place: f.place[:0], groupRoom: nil, groupLoad: f.groupLoad[:0],
		seenGroup: f.seenGroup, seenSlots: f.seenSlots,
	}
}

// begin starts with some openings and no groups.
func (f *flow) begin(s *search, open []opening) {
	f.open, f.group = open, nil
	f.slots, f.place = f.slots[:0], f.place[:0]
	clear(f.load)
	f.vacant.SetAll()
	for k := range open {
		for range open[k].slots {
			f.slots = append(f.slots, int32(k))
			f.place = append(f.place, -1)
		}
	}
	if !s.ahead.shareable {
		return
	}
	for i := range s.p.Devices {
		if s.p.Devices[i].Shareable {
			f.capacity[i] = s.sharesLeft(open, int32(i))
			f.vacant.SetTo(uint(i), f.capacity[i] > 0)
		}
	}
}

func (f *flow) setGroups(of, room []int32) {
	f.group, f.groupRoom = of, room
	f.groupLoad = f.groupLoad[:0]
	for range room {
		f.groupLoad = append(f.groupLoad, 0)
	}
}

// goHome puts slots where they were the last time, as far as they still can be there.
func (f *flow) goHome() {
	for slot := 0; slot < len(f.slots); {
		k := f.slots[slot]
		for _, i := range f.home[f.open[k].request] {
			if slot < len(f.slots) && f.slots[slot] == k && f.open[k].has(uint(i)) && f.hasRoom(i) && !f.holds(int32(slot), i) {
				f.put(int32(slot), i)
				slot++
			}
		}
		for slot < len(f.slots) && f.slots[slot] == k {
			slot++
		}
	}
}

// settle remembers where slots are.
func (f *flow) settle() {
	for k := range f.open {
		f.home[f.open[k].request] = f.home[f.open[k].request][:0]
	}
	for slot, i := range f.place {
		request := f.open[f.slots[slot]].request
		f.home[request] = append(f.home[request], i)
	}
}

// fails reports whether some slot can have no device. Then seenSlots are those that compete for
// too few.
func (f *flow) fails(s *search) bool {
	for slot := range f.slots {
		if f.place[slot] >= 0 || f.find(int32(slot)) {
			continue
		}
		s.stats.Steps++
		f.seen.ClearAll()
		f.seenGroup.ClearAll()
		f.seenSlots.ClearAll()
		if !f.augment(int32(slot)) {
			return true
		}
	}
	return false
}

// find gives a slot a device that has room.
func (f *flow) find(slot int32) bool {
	o := &f.open[f.slots[slot]]
	for i, ok := o.nextIn(f.vacant, 0); ok; i, ok = o.nextIn(f.vacant, i+1) {
		if f.groupHasRoom(int32(i)) && !f.holds(slot, int32(i)) {
			f.put(slot, int32(i))
			return true
		}
	}
	return false
}

// augment finds a device for a slot, moving other slots if it must.
func (f *flow) augment(slot int32) bool {
	f.seenSlots.Set(uint(slot))
	if f.find(slot) {
		return true
	}
	o := &f.open[f.slots[slot]]
	for i, ok := o.nextOutside(f.seen, 0); ok; i, ok = o.nextOutside(f.seen, i+1) {
		if f.holds(slot, int32(i)) || !f.free(int32(i)) {
			continue
		}
		f.put(slot, int32(i))
		return true
	}
	return false
}

// free makes room on a device and in its group, if need be by moving a slot away.
func (f *flow) free(i int32) bool {
	f.seen.Set(uint(i))
	if f.load[i] >= f.capacity[i] {
		if f.capacity[i] == 1 {
			slot := f.tenant[i]
			return !f.seenSlots.Test(uint(slot)) && f.augment(slot)
		}
		return f.moveOne(func(other int32) bool { return other == i })
	}
	g := f.groupOf(i)
	if g < 0 || f.groupLoad[g] < f.groupRoom[g] {
		return true
	}
	if f.seenGroup.Test(uint(g)) {
		return false
	}
	f.seenGroup.Set(uint(g))
	return f.moveOne(func(other int32) bool { return f.groupOf(other) == g })
}

// moveOne finds another device for one of the slots on certain devices.
func (f *flow) moveOne(from func(device int32) bool) bool {
	for slot, i := range f.place {
		if i >= 0 && from(i) && !f.seenSlots.Test(uint(slot)) && f.augment(int32(slot)) {
			return true
		}
	}
	return false
}

func (f *flow) groupOf(i int32) int32 {
	if f.group == nil {
		return -1
	}
	return f.group[i]
}

func (f *flow) hasRoom(i int32) bool { return f.load[i] < f.capacity[i] && f.groupHasRoom(i) }

func (f *flow) groupHasRoom(i int32) bool {
	g := f.groupOf(i)
	return g < 0 || f.groupLoad[g] < f.groupRoom[g]
}

// holds reports whether another slot of the same opening has a share of the device.
func (f *flow) holds(slot, i int32) bool {
	if f.capacity[i] == 1 || f.load[i] == 0 {
		return false
	}
	k := f.slots[slot]
	for other, at := range f.place {
		if at == i && f.slots[other] == k && int32(other) != slot {
			return true
		}
	}
	return false
}

// put gives a slot a device instead of the one it had.
func (f *flow) put(slot, i int32) {
	if old := f.place[slot]; old >= 0 {
		f.count(old, -1)
	}
	f.place[slot], f.tenant[i] = i, slot
	f.count(i, 1)
}

func (f *flow) count(i, by int32) {
	f.load[i] += by
	f.vacant.SetTo(uint(i), f.load[i] < f.capacity[i])
	if g := f.groupOf(i); g >= 0 {
		f.groupLoad[g] += by
	}
}

// visited are the openings of the slots that a failed augmentation came across. They are good
// until the next flow.
func (f *flow) visited() []opening {
	some := f.rivals[:0]
	last := int32(-1)
	for slot, ok := f.seenSlots.NextSet(0); ok; slot, ok = f.seenSlots.NextSet(slot + 1) {
		if k := f.slots[slot]; k != last {
			some = append(some, f.open[k])
			last = k
		}
	}
	f.rivals = some
	return some
}

// sharesLeft is how many openings can have a share of a device at most: those that take least,
// resource by resource.
func (s *search) sharesLeft(open []opening, i int32) int32 {
	var demands [][]Draw
	for k := range open {
		if open[k].has(uint(i)) {
			demands = append(demands, s.leastShare(&open[k], i))
		}
	}
	fits := len(demands)
	if fits < 2 {
		return 1
	}
	for part := range demands[0] {
		resource := demands[0][part].Resource
		slices.SortFunc(demands, func(a, b []Draw) int { return a[part].Amount.Cmp(b[part].Amount) })
		left, n := s.left[resource], 0
		for n < fits && demands[n][part].Amount.Cmp(left) <= 0 {
			left = left.Sub(demands[n][part].Amount)
			n++
		}
		fits = n
	}
	return int32(fits)
}

// leastShare is, resource by resource, the least that an opening takes of a device. All shares of
// a device take of the same resources.
func (s *search) leastShare(o *opening, i int32) (least []Draw) {
	cloned := false
	for _, option := range o.options {
		d := &s.p.Domains[s.p.Requests[o.request].Options[option].Domain]
		if int(i) >= len(d.Shares) || d.Shares[i] == nil {
			continue
		}
		if least == nil {
			least = d.Shares[i]
			continue
		}
		for part, draw := range d.Shares[i] {
			if draw.Amount.Cmp(least[part].Amount) < 0 {
				if !cloned {
					least, cloned = slices.Clone(least), true
				}
				least[part] = draw
			}
		}
	}
	return least
}
