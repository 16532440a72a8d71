package allocator

import (
	"slices"
	"sync"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// roster is the devices that a node reaches, and what of them is the same for all problems,
// whatever is in use. It is kept for as long as nothing changes there, and safe for
// concurrent use.
type roster struct {
	features Features
	pools    []rosterPool
	// devices are those of complete and valid pools. A device's position here is
	// what the search calls it.
	devices []device
	// all are all devices, here those on the node.
	all, here *bitset.BitSet
	// special are devices of which more counts than what a filter reads and whether
	// they are on the node and in use: each has to be judged by itself.
	special *bitset.BitSet

	count   sync.Once
	counted counted

	faces noteList[*sight, *faces]
	// attributes have their values by device.
	attributes noteList[resourceapi.FullyQualifiedName, []constrained]
}

// rosterPool is a usable pool. Its devices follow each other in roster.devices.
type rosterPool struct {
	*pools.Pool
	// first and end are positions in roster.devices.
	first, end int32
	// straight is set if the positions of devices are first plus their index.
	straight bool
}

// device is a candidate on the node.
type device struct {
	*pools.Device
	pool  int32 // position in instance.pools
	index pools.DeviceIndex
	// place counts the devices that are on the node, in the order of the view.
	place  int32
	onNode bool
	// multiple is set if allocations of the device are shares (KEP-5075).
	multiple bool
	// onNodeErr is set if the device's own node selector cannot be evaluated.
	onNodeErr error
}

// rosterOf returns the roster of a node, in first-fit order.
func (a *Allocator) rosterOf(view *pools.NodeView) *roster {
	kept := view.Attach(func() any { return newRoster(view.Pools, a.features) }).(*roster)
	if kept.features != a.features {
		return newRoster(view.Pools, a.features)
	}
	return kept
}

func newRoster(views []*pools.PoolView, features Features) *roster {
	r := &roster{features: features, pools: make([]rosterPool, 0, len(views))}
	count := 0
	for _, pv := range views {
		count += len(pv.Devices)
	}
	r.devices = make([]device, 0, count)
	r.all, r.here, r.special = bitset.New(uint(count)), bitset.New(uint(count)), bitset.New(uint(count))
	for _, pv := range views {
		if pv.Usable() {
			r.add(pv)
		}
	}
	return r
}

func (r *roster) add(pv *pools.PoolView) {
	p := rosterPool{Pool: pv.Pool, first: int32(len(r.devices)), straight: true}
	for n, nd := range pv.Devices {
		p.straight = p.straight && int(nd.Index) == n
		d := device{
			Device:    &pv.Pool.Devices[nd.Index],
			pool:      int32(len(r.pools)),
			index:     nd.Index,
			onNode:    nd.OnNode,
			onNodeErr: nd.SelectorErr,
		}
		d.multiple = d.Multiple && r.features.ConsumableCapacity
		i := uint(len(r.devices))
		if d.onNode {
			d.place = int32(r.here.Count())
			r.here.Set(i)
		}
		r.all.Set(i)
		r.special.SetTo(i, r.isSpecial(&d))
		r.devices = append(r.devices, d)
	}
	p.end = int32(len(r.devices))
	r.pools = append(r.pools, p)
}

func (r *roster) isSpecial(d *device) bool {
	switch {
	case d.onNodeErr != nil, d.multiple, len(d.Object.BindingConditions) > 0,
		len(d.Object.Taints) > 0, len(d.Slice.Object.Spec.SkipNodeOperations) > 0:
		return true
	case d.ConsumesCounters && !r.features.PartitionableDevices:
		return true
	}
	return r.features.ConsumableCapacity && !notesOf(d.Shape).plain
}

// sorted is a roster in the order of a policy, which may look at what is in use: it is good
// for one instance.
func (r *roster) sorted(compare func(a, b device) int) *roster {
	s := &roster{features: r.features, all: r.all, special: r.all}
	s.devices = slices.Clone(r.devices)
	slices.SortStableFunc(s.devices, compare)
	s.here = bitset.New(r.here.Len())
	s.pools = slices.Clone(r.pools)
	for p := range s.pools {
		s.pools[p].first, s.pools[p].end, s.pools[p].straight = 0, int32(len(s.devices)), false
	}
	for i := range s.devices {
		s.here.SetTo(uint(i), s.devices[i].onNode)
	}
	return s
}

// find sets the positions of the devices of a pool that next lists by index.
func (r *roster) find(p int, next func(pools.DeviceIndex) (pools.DeviceIndex, bool), to *bitset.BitSet) {
	pool := &r.pools[p]
	index, ok := next(0)
	if !ok {
		return
	}
	if pool.straight {
		for ; ok && int32(index) < pool.end-pool.first; index, ok = next(index + 1) {
			to.Set(uint(pool.first + int32(index)))
		}
		return
	}
	for i := pool.first; i < pool.end; i++ {
		if d := &r.devices[i]; int(d.pool) == p {
			if at, ok := next(d.index); ok && at == d.index {
				to.Set(uint(i))
			}
		}
	}
}

// attribute looks an attribute of all devices up.
func (r *roster) attribute(name resourceapi.FullyQualifiedName) []constrained {
	values, known := r.attributes.get(name)
	if known {
		return values
	}
	values = make([]constrained, len(r.devices))
	for i := range r.devices {
		values[i].value, values[i].found = r.devices[i].Shape.Attribute(name)
	}
	r.attributes.add(name, values, maxColumns)
	return values
}

// maxColumns bounds the attributes and the ways of looking at devices that are kept with a
// roster.
const maxColumns = 8
