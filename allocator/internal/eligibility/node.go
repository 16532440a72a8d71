// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/memo"
)

// Devices are the devices that a node reaches, in first-fit order. They hold what is the same for all problems
// and any usage: it depends on the gates of the snapshot only. They are cached with the view for as long as it
// does not change. Safe for concurrent use.
type Devices struct {
	Pools   []*pool.Pool
	offsets []int32 // the position of the first device of each pool, and then the number of devices
	// List has the devices of complete and valid pools. A device is identified by its position in it.
	List   []Device
	onNode *bitset.BitSet // devices on the node
	// special are devices that must be judged one by one: more than their shape, node and usage matters.
	special *bitset.BitSet

	equivalences     memo.List[*Projection, *equivalence]
	shape.Attachment // for package model
}

// Device is a device of a usable pool that reaches the node.
type Device struct {
	*pool.Device
	Pool  int32 // position in Devices.Pools
	Index pool.DeviceIndex
	// Place is the rank of the device among those on the node, in the order of the view.
	Place int32
	// OnNode is false if the device selects other nodes. SelectorErr is set if its node selector cannot be
	// evaluated.
	OnNode      bool
	SelectorErr error
	// Shareable is set if allocations of the device are shares (KEP-5075).
	Shareable bool
}

func newDevices(views []*pool.View, f Features) *Devices {
	count := 0
	for _, pv := range views {
		count += len(pv.Devices)
	}
	d := &Devices{List: make([]Device, 0, count), offsets: []int32{0}}
	d.onNode, d.special = bitset.New(uint(count)), bitset.New(uint(count))
	for _, pv := range views {
		if pv.Usable() {
			d.add(pv, f)
		}
	}
	return d
}

func (d *Devices) add(pv *pool.View, f Features) {
	for index, onNode := range pv.All() {
		device := Device{
			Device:      &pv.Pool.Devices[index],
			Pool:        int32(len(d.Pools)),
			Index:       index,
			OnNode:      onNode,
			SelectorErr: pv.Uncertain[index],
		}
		device.Shareable = device.Multiple && f.ConsumableCapacity
		i := uint(len(d.List))
		if device.OnNode {
			device.Place = int32(d.onNode.Count())
			d.onNode.Set(i)
		}
		d.special.SetTo(i, device.isSpecial(f))
		d.List = append(d.List, device)
	}
	d.Pools, d.offsets = append(d.Pools, pv.Pool), append(d.offsets, int32(len(d.List)))
}

func (d *Device) isSpecial(f Features) bool {
	return d.SelectorErr != nil || d.Shareable || len(d.Object.BindingConditions) > 0 ||
		len(d.Object.Taints) > 0 || len(d.Slice.Object.Spec.SkipNodeOperations) > 0 ||
		d.ConsumesCounters && !f.PartitionableDevices
}

// find sets in to the positions of a pool's devices. next returns the first index at or after its argument, as
// Usage.NextInUse does.
func (d *Devices) find(p int, next func(pool.DeviceIndex) (pool.DeviceIndex, bool), to *bitset.BitSet) {
	for i, end := d.offsets[p], d.offsets[p+1]; i < end; i++ {
		index, ok := next(d.List[i].Index)
		if !ok {
			return
		}
		// Indices ascend, mostly by one.
		for i = min(i+int32(index-d.List[i].Index), end-1); d.List[i].Index > index; {
			i--
		}
		if d.List[i].Index == index {
			to.Set(uint(i))
		}
	}
}

// maxProjected bounds the projections for which Devices keeps equivalence classes.
const maxProjected = 8

// Usage tells what is in use of a pool.
type Usage interface {
	Pool(p *pool.Pool) *pool.Usage
}

// Node combines the devices of a node with what is in use. After Begin, only Take modifies it.
type Node struct {
	*Devices
	Object *corev1.Node
	View   cluster.NodeView
	Used   []*pool.Usage // by position in Pools
	// InUse are the devices that are in use exclusively or withheld. Shared are those with shares in use, nil
	// if there are none.
	InUse, Shared *bitset.BitSet
	evaluator     *Evaluator
	sets          *slab.Sets
}

// Begin fills in a node. Its sets are taken from a slab.
func (n *Node) Begin(e *Evaluator, view cluster.NodeView, u Usage, sets *slab.Sets) {
	n.evaluator, n.sets = e, sets
	n.Object, n.View = view.Node, view
	if e.memoOff {
		n.Devices = newDevices(view.Pools, e.features)
	} else {
		n.Devices = n.View.Attach(func() any { return newDevices(view.Pools, e.features) }).(*Devices)
	}
	n.Used = n.Used[:0]
	for _, pool := range n.Pools {
		n.Used = append(n.Used, u.Pool(pool))
	}
	n.InUse, n.Shared = sets.New(len(n.List)), nil
	for p, used := range n.Used {
		n.find(p, used.NextInUse, n.InUse)
		n.find(p, used.NextWithheld, n.InUse)
		if _, some := used.NextShared(0); some {
			if n.Shared == nil {
				n.Shared = sets.New(len(n.List))
			}
			n.find(p, used.NextShared, n.Shared)
		}
	}
}

// Take marks devices, by position, as exclusively in use.
func (n *Node) Take(devices []int32) {
	for p := range n.Used {
		ofPool := func(i int32) bool { return n.List[i].Pool == int32(p) }
		if !slices.ContainsFunc(devices, ofPool) {
			continue
		}
		edit := n.Used[p].Edit()
		for _, i := range devices {
			if ofPool(i) {
				edit.Set([]pool.DeviceIndex{n.List[i].Index}, pool.Use{Exclusive: true})
				n.InUse.Set(uint(i))
			}
		}
		n.Used[p] = edit.Done()
	}
}

// Release drops all references but keeps buffers.
func (n *Node) Release() {
	clear(n.Used)
	*n = Node{Used: n.Used[:0]}
}

func (n *Node) isShared(i int32) bool { return n.Shared != nil && n.Shared.Test(uint(i)) }

// ID is the cluster-wide identity of a device.
func (n *Node) ID(i int32) pool.DeviceID {
	d := &n.List[i]
	return n.Pools[d.Pool].DeviceID(d.Index)
}
