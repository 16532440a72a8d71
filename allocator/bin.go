package allocator

import (
	"cmp"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// counterSet is one of a pool.
type counterSet struct {
	pool int32
	set  pools.CounterSetIndex
}

// bin is a counter set and the devices that draw on it. A device that draws on two is
// counted with the one on which more devices draw.
type bin struct {
	counterSet
	members []int32
	// cheapest has, for each counter that some member takes from, the members from the
	// one that takes least of it.
	cheapest []cheapest
	// compatible are the largest sets that go together, nil if that is all members.
	compatible []compatible
	// shareable is set if a member can fill several slots.
	shareable bool
}

type cheapest struct {
	counter pools.CounterIndex
	members []int32
	amounts []amount.Amount
}

func (c *counted) addBins(r *roster) {
	c.binOf = slices.Repeat([]int32{-1}, len(r.devices))
	bins, drawing := make(map[counterSet]int32), r.drawing()
	for i := range r.devices {
		d := &r.devices[i]
		key, counts := r.binSet(d, drawing)
		if !counts {
			continue
		}
		n, known := bins[key]
		if !known {
			n = int32(len(c.bins))
			bins[key] = n
			c.bins = append(c.bins, bin{counterSet: key})
		}
		c.binOf[i] = n
		c.bins[n].shareable = c.bins[n].shareable || d.multiple
		c.bins[n].members = append(c.bins[n].members, int32(i))
	}
	for b := range c.bins {
		c.bins[b].sort(r)
		c.bins[b].addCompatible(r)
	}
}

// drawing counts the devices that draw on each counter set.
func (r *roster) drawing() map[counterSet]int {
	drawing := make(map[counterSet]int)
	for i := range r.devices {
		d := &r.devices[i]
		for _, use := range d.Groups {
			drawing[counterSet{d.pool, use.Set}]++
		}
	}
	return drawing
}

// binSet is the counter set with which a device is counted, if it is with any.
func (r *roster) binSet(d *device, drawing map[counterSet]int) (most counterSet, counts bool) {
	for _, use := range d.Groups {
		set := counterSet{d.pool, use.Set}
		if (!counts || drawing[set] > drawing[most]) && r.limits(d, use.Set) {
			most, counts = set, true
		}
	}
	return most, counts
}

// limits reports whether a counter set can stand against a device that draws on it: by a
// counter, or by compatibility groups.
func (r *roster) limits(d *device, set pools.CounterSetIndex) bool {
	return r.features.CompatibilityGroups || slices.ContainsFunc(d.Uses, func(use pools.CounterUse) bool {
		return r.pools[d.pool].Counters[use.Counter].Set == set
	})
}

func (b *bin) sort(r *roster) {
	counters := make(map[pools.CounterIndex]bool)
	for _, i := range b.members {
		for _, use := range r.devices[i].Uses {
			counters[use.Counter] = true
		}
	}
	for counter := range counters {
		c := cheapest{counter: counter, members: slices.Clone(b.members)}
		use := func(i int32) amount.Amount { return usedOf(r.devices[i].Uses, counter) }
		slices.SortFunc(c.members, func(x, y int32) int { return cmp.Or(use(x).Cmp(use(y)), cmp.Compare(x, y)) })
		for _, i := range c.members {
			c.amounts = append(c.amounts, use(i))
		}
		b.cheapest = append(b.cheapest, c)
	}
	slices.SortFunc(b.cheapest, func(x, y cheapest) int { return cmp.Compare(x.counter, y.counter) })
}

func usedOf(uses []pools.CounterUse, counter pools.CounterIndex) amount.Amount {
	for _, use := range uses {
		if use.Counter == counter {
			return use.Amount
		}
	}
	return amount.Amount{}
}

// binCapacity is how many slots the devices of a bin that are still to be charged can
// serve, those of the set of compatible ones that serves most.
func (m *matching) binCapacity(b *bin) int32 {
	if b.compatible == nil {
		return m.slotsAmong(b, nil)
	}
	most := int32(0)
	for _, c := range b.compatible {
		most = max(most, m.slotsAmong(b, c.members))
	}
	return most
}

// slotsAmong is how many slots some members of a bin can serve, counter by counter. Nil is all
// of them.
func (m *matching) slotsAmong(b *bin, some *bitset.BitSet) int32 {
	limit := min(m.sortMembers(b, some), int32(len(m.slots)))
	left := m.s.pools[b.pool].left
	for k := range b.cheapest {
		c := &b.cheapest[k]
		if len(m.shareables) > maxChoices {
			limit = min(limit, m.generous(c, left[c.counter]))
		} else {
			limit = min(limit, m.choose(c, m.shareables, left[c.counter], 0))
		}
	}
	return limit
}

// maxChoices is up to how many shareable devices all choices among them are tried.
const maxChoices = 4

// sortMembers takes devices that cost nothing out of the group, and lists those that cost
// something and can be shared. It counts the slots of all that cost something.
func (m *matching) sortMembers(b *bin, some *bitset.BitSet) (slots int32) {
	m.shareables = m.shareables[:0]
	m.paying.ClearAll()
	for _, i := range b.members {
		switch {
		case !m.s.charges(i):
			m.charged[i] = -1
		case m.viable.Test(uint(i)) && (some == nil || some.Test(uint(i))):
			m.paying.Set(uint(i))
			slots += m.capacity[i] * m.charges(i)
			if m.capacity[i] > 1 {
				m.shareables = append(m.shareables, i)
			}
		}
	}
	return slots
}

// choose is how many slots the members of a bin can fill at most: those of some of the
// shareable ones, and as many of the others as are cheapest.
func (m *matching) choose(c *cheapest, shareables []int32, room amount.Amount, slots int32) int32 {
	if len(shareables) == 0 {
		return m.fillCheapest(c, room, slots, 1)
	}
	i := shareables[0]
	most := m.choose(c, shareables[1:], room, slots)
	if cost := usedOf(m.s.in.devices[i].Uses, c.counter); cost.Cmp(room) <= 0 {
		most = max(most, m.choose(c, shareables[1:], room.Sub(cost), slots+m.capacity[i]))
	}
	return most
}

// generous takes each device for the one with the most shares.
func (m *matching) generous(c *cheapest, room amount.Amount) int32 {
	most := int32(1)
	for _, i := range m.shareables {
		most = max(most, m.capacity[i])
	}
	return m.fillCheapest(c, room, 0, most)
}

// fillCheapest adds the slots of as many devices as there is room for, without those that
// have more slots than each is counted with.
func (m *matching) fillCheapest(c *cheapest, room amount.Amount, slots, each int32) int32 {
	for n, i := range c.members {
		if c.amounts[n].Cmp(room) > 0 || int(slots) >= len(m.slots) {
			break
		}
		if !m.paying.Test(uint(i)) || m.capacity[i] > each {
			continue
		}
		for range m.charges(i) {
			if c.amounts[n].Cmp(room) > 0 {
				break
			}
			room, slots = room.Sub(c.amounts[n]), slots+each
		}
	}
	return slots
}

// sharesLeft is how many shares a device can hold at most: the smallest that openings ask
// for, one for each, capacity by capacity. At an error, no capacity is asked for.
func (m *matching) sharesLeft(i int32) int32 {
	m.uses = m.uses[:0]
	errors := int32(0)
	for o := range m.open {
		if m.open[o].entry && m.s.foresight.errorsAt.Test(uint(i)) {
			errors++
		} else if least, asks := m.leastUse(&m.open[o], i); asks && m.open[o].has(uint(i)) {
			m.uses = append(m.uses, least)
		}
	}
	fits := int32(len(m.uses))
	if fits == 0 {
		return max(1, errors)
	}
	for p, part := range m.uses[0] {
		slices.SortFunc(m.uses, func(a, b []consumptionPart) int { return a[p].taken.Cmp(b[p].taken) })
		taken, n := m.s.consumption(i, p, part.name), int32(0)
		for ; n < fits; n++ {
			if taken = taken.Add(m.uses[n][p].taken); taken.Cmp(part.total) > 0 {
				break
			}
		}
		fits = n
	}
	return fits + errors
}

// leastUse is, capacity by capacity, the least that an opening takes of a device. One
// alternative may need little of one capacity, and another little of the next.
func (m *matching) leastUse(o *opening, i int32) (least []consumptionPart, asks bool) {
	cloned := false
	for _, alt := range o.possible {
		use := m.s.in.alternatives[alt.id].domain.uses[i]
		if use == nil {
			continue
		}
		if !asks {
			least, asks = use.parts, true
			continue
		}
		if !cloned {
			least, cloned = slices.Clone(least), true
		}
		for p := range least {
			least[p].taken = lesser(least[p].taken, use.parts[p].taken)
		}
	}
	return least, asks
}

func lesser(a, b amount.Amount) amount.Amount {
	if b.Cmp(a) < 0 {
		return b
	}
	return a
}
