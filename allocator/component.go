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
func (c *counted) addComponents(r *roster) {
	c.componentOf = make([]int32, len(r.devices))
	of := make(map[counterSet]int32)
	for i := range r.devices {
		d := &r.devices[i]
		c.componentOf[i] = -1
		for _, use := range d.Groups {
			c.join(int32(i), counterSet{d.pool, use.Set}, of)
		}
		if n := c.componentOf[i]; n >= 0 {
			c.components[n].members.Set(uint(i))
		}
	}
	for p := range r.pools {
		for k := range r.pools[p].CounterSets {
			if n, used := of[counterSet{int32(p), pools.CounterSetIndex(k)}]; used {
				c.components[n].sets = append(c.components[n].sets, pools.CounterSetIndex(k))
			}
		}
	}
}

// join puts a device into the component of a counter set, which may join two components.
func (c *counted) join(device int32, key counterSet, of map[counterSet]int32) {
	into := c.componentOf[device]
	from, known := of[key]
	switch {
	case !known && into < 0:
		into = int32(len(c.components))
		c.components = append(c.components, component{pool: key.pool, members: bitset.New(uint(len(c.componentOf)))})
	case known && into < 0:
		into = from
	case known && from != into:
		c.merge(from, into)
		for other := range of {
			if of[other] == from {
				of[other] = into
			}
		}
	}
	of[key], c.componentOf[device] = into, into
}

func (c *counted) merge(from, into int32) {
	members := c.components[from].members
	for i, ok := members.NextSet(0); ok; i, ok = members.NextSet(i + 1) {
		c.componentOf[i] = into
	}
	c.components[into].members.InPlaceUnion(members)
	c.components[from].members = bitset.New(members.Len())
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
