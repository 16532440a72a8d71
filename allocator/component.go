package allocator

import (
	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/pools"
)

// component is a group of devices that draw, directly or by way of others, on the same
// counter sets. What is chosen in one leaves the counters of all others as they are.
type component struct {
	pool    int32
	sets    []pools.CounterSetIndex // ascending
	members *bitset.BitSet
}

// addComponents joins the counter sets that some device uses together.
func (f *foresight) addComponents(s *search) {
	f.componentOf = make([]int32, len(s.in.devices))
	type set struct {
		pool int32
		set  pools.CounterSetIndex
	}
	of := make(map[set]int32)
	for i := range s.in.devices {
		d := &s.in.devices[i]
		f.componentOf[i] = -1
		for _, use := range d.Groups {
			key := set{d.pool, use.Set}
			if c, known := of[key]; !known {
				if f.componentOf[i] < 0 {
					f.componentOf[i] = int32(len(f.components))
					f.components = append(f.components, component{pool: d.pool, members: bitset.New(uint(len(s.in.devices)))})
				}
				of[key] = f.componentOf[i]
			} else if f.componentOf[i] < 0 {
				f.componentOf[i] = c
			} else if c != f.componentOf[i] {
				f.merge(c, f.componentOf[i])
				for key := range of {
					if of[key] == c {
						of[key] = f.componentOf[i]
					}
				}
			}
		}
		if c := f.componentOf[i]; c >= 0 {
			f.components[c].members.Set(uint(i))
		}
	}
	for p := range s.in.pools {
		for k := range s.in.pools[p].pool.CounterSets {
			if c, used := of[set{int32(p), pools.CounterSetIndex(k)}]; used {
				f.components[c].sets = append(f.components[c].sets, pools.CounterSetIndex(k))
			}
		}
	}
}

func (f *foresight) merge(from, into int32) {
	members := f.components[from].members
	for i, ok := members.NextSet(0); ok; i, ok = members.NextSet(i + 1) {
		f.componentOf[i] = into
	}
	f.components[into].members.InPlaceUnion(members)
	f.components[from].members = bitset.New(members.Len())
}

// counterOf numbers a counter within its component.
func (c *component) counterOf(p *pools.Pool, counter pools.CounterIndex) uint32 {
	n := uint32(0)
	for _, k := range c.sets {
		set := &p.CounterSets[k]
		if counter >= set.First && counter < set.First+set.Count {
			return n + uint32(counter-set.First)
		}
		n += uint32(set.Count)
	}
	return n
}

// setOf numbers a counter set within its component.
func (c *component) setOf(set pools.CounterSetIndex) uint32 {
	for n, k := range c.sets {
		if k == set {
			return uint32(n)
		}
	}
	return uint32(len(c.sets))
}
