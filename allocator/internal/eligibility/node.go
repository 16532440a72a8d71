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

// Devices are the devices that a node reaches, in first-fit order, and what of them is the same
// for all problems, whatever is in use: it depends on no features but the gates of the snapshot. They are
// kept for as long as nothing changes there, and are safe for concurrent use.
type Devices struct {
	Pools  []*pool.Pool
	firsts []int32 // positions of the first device of each of the pools, and the number of all
	// List has the devices of complete and valid pools. A device is known by its position.
	List []Device
	here *bitset.BitSet // those on the node
	// special are devices of which more counts than their shape and whether they are on the node
	// and in use: each has to be judged by itself.
	special *bitset.BitSet

	looks            memo.List[*Projection, *looks]
	shape.Attachment // for package model
}

// Device is a device of a usable pool that reaches the node.
type Device struct {
	*pool.Device
	Pool  int32 // position in Devices.Pools
	Index pool.DeviceIndex
	// Place counts the devices that are on the node, in the order of the view.
	Place int32
	// OnNode is false if the device chooses other nodes; SelectorErr is set if that cannot be
	// said.
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
	d := &Devices{List: make([]Device, 0, count), firsts: []int32{0}}
	d.here, d.special = bitset.New(uint(count)), bitset.New(uint(count))
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
			device.Place = int32(d.here.Count())
			d.here.Set(i)
		}
		d.special.SetTo(i, device.isSpecial(f))
		d.List = append(d.List, device)
	}
	d.Pools, d.firsts = append(d.Pools, pv.Pool), append(d.firsts, int32(len(d.List)))
}

func (d *Device) isSpecial(f Features) bool {
	return d.SelectorErr != nil || d.Shareable || len(d.Object.BindingConditions) > 0 ||
		len(d.Object.Taints) > 0 || len(d.Slice.Object.Spec.SkipNodeOperations) > 0 ||
		d.ConsumesCounters && !f.PartitionableDevices
}

// find sets the positions of the devices of a pool that next lists by index.
func (d *Devices) find(p int, next func(pool.DeviceIndex) (pool.DeviceIndex, bool), to *bitset.BitSet) {
	for i, end := d.firsts[p], d.firsts[p+1]; i < end; i++ {
		index, ok := next(d.List[i].Index)
		if !ok {
			return
		}
		// Indices ascend, mostly one by one.
		for i = min(i+int32(index-d.List[i].Index), end-1); d.List[i].Index > index; {
			i--
		}
		if d.List[i].Index == index {
			to.Set(uint(i))
		}
	}
}

// maxProjected bounds the projections that are kept with devices.
const maxProjected = 8

// Usage tells what is in use of a pool.
type Usage interface {
	Pool(p *pool.Pool) *pool.Usage
}

// Node is the devices of a node with what is in use of them. Only Take modifies it once begun.
type Node struct {
	*Devices
	Object *corev1.Node
	View   cluster.NodeView
	Used   []*pool.Usage // by position in Pools
	// InUse are the devices in use as a whole or withheld, Shared those of which shares are. Shared is nil
	// if there are none.
	InUse, Shared *bitset.BitSet
	evaluator     *Evaluator
	sets          *slab.Sets
}

// Begin looks at a node. Sets are taken from a slab.
func (n *Node) Begin(e *Evaluator, view cluster.NodeView, u Usage, sets *slab.Sets) {
	n.evaluator, n.sets = e, sets
	n.Object, n.View = view.Node, view
	if e.off {
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

// Take adds devices, by position, to those in use as a whole.
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

// Release forgets the node and keeps memory.
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
