// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// PoolID identifies a pool in a cluster.
type PoolID struct{ Driver, Name string }

// String returns "driver/name".
func (id PoolID) String() string { return pool.ID(id).String() }

// DeviceID identifies a device in a cluster.
type DeviceID struct{ Driver, Pool, Device string }

// String returns "driver/pool/device".
func (id DeviceID) String() string { return pool.DeviceID(id).String() }

// PoolID returns the pool that the device belongs to.
func (id DeviceID) PoolID() PoolID { return PoolID(pool.DeviceID(id).PoolID()) }

// Pool is a pool at its highest generation. It is immutable; a change of any of its slices
// makes a new Pool, so Pools that are equal (==) have the same content.
type Pool struct{ pool *pool.Pool }

// ID returns driver and name.
func (p Pool) ID() PoolID { return PoolID(p.pool.ID) }

// Generation returns the highest generation among all slices of the pool.
func (p Pool) Generation() int64 { return p.pool.Generation }

// SliceCount returns how many slices of that generation the pool should have (resourceSliceCount), and how many
// exist.
func (p Pool) SliceCount() (expected, present int64) {
	return p.pool.SliceCount, p.pool.Present
}

// Incomplete says why slices are missing. It is empty if the pool is complete.
func (p Pool) Incomplete() string { return p.pool.Incomplete }

// Invalid says what is wrong with the counters of a complete pool, on all nodes. It is empty if they are valid.
func (p Pool) Invalid() string { return p.pool.Invalid }

// Slices lists the slices of that generation that have devices or counter sets, by name. They must not be
// modified.
func (p Pool) Slices() iter.Seq[*resourceapi.ResourceSlice] {
	return each(p.pool.Slices, func(s *pool.Slice) *resourceapi.ResourceSlice { return s.Object })
}

// each lists the results of a function for the elements of a list.
func each[T, U any](list []T, of func(T) U) iter.Seq[U] {
	return func(yield func(U) bool) {
		for _, element := range list {
			if !yield(of(element)) {
				return
			}
		}
	}
}

// Len is the number of devices.
func (p Pool) Len() int { return len(p.pool.Devices) }

// Devices lists the devices of all slices of the generation, by the names of the slices, and as listed in each.
func (p Pool) Devices() iter.Seq[Device] {
	return func(yield func(Device) bool) {
		for i := range p.pool.Devices {
			if !yield(p.device(pool.DeviceIndex(i))) {
				return
			}
		}
	}
}

// Lookup lists the devices with a name: none, one, or several if slices for different nodes repeat the name.
func (p Pool) Lookup(device string) iter.Seq[Device] {
	return each(p.pool.Lookup(device), p.device)
}

func (p Pool) device(i pool.DeviceIndex) Device { return Device(pool.HandleOf(p.pool, i)) }

// CounterSets returns the counter sets by name, with their totals. There are none if the pool is incomplete or
// invalid, or if partitionable devices are gated off.
func (p Pool) CounterSets() []CounterSet {
	return p.counterSets(func(c pool.CounterIndex) amount.Amount { return p.pool.Counters[c].Total })
}

func (p Pool) counterSets(value func(pool.CounterIndex) amount.Amount) []CounterSet {
	sets := make([]CounterSet, 0, len(p.pool.CounterSets))
	for _, s := range p.pool.CounterSets {
		set := CounterSet{Name: s.Name}
		for c := s.First; c < s.First+s.Count; c++ {
			counter := &p.pool.Counters[c]
			set.Counters = append(set.Counters, Counter{counter.Name, quantity.Of(value(c), counter.Quantity.Format)})
		}
		sets = append(sets, set)
	}
	return sets
}

// CounterSet is a counter set of a pool (KEP-4815).
type CounterSet struct {
	Name     string
	Counters []Counter // by name
}

// Counter is an amount of one counter.
type Counter struct {
	Name  string
	Value resource.Quantity
}

// Device is one device of a Pool. Devices are equal (==) if they are the same device of
// the same Pool.
type Device pool.Handle

func (d Device) position() pool.DeviceIndex {
	_, i := d.handle()
	return i
}

func (d Device) handle() (*pool.Pool, pool.DeviceIndex) { return pool.Handle(d).Split() }

func (d Device) device() *pool.Device {
	p, i := d.handle()
	return &p.Devices[i]
}

// ID returns the cluster-wide identity of the device.
func (d Device) ID() DeviceID {
	p, i := d.handle()
	return DeviceID(p.DeviceID(i))
}

// Pool returns the pool that the device belongs to.
func (d Device) Pool() Pool {
	p, _ := d.handle()
	return Pool{p}
}

// Object returns the device as published. It must not be modified.
func (d Device) Object() *resourceapi.Device { return d.device().Object }

// Slice returns the slice that lists the device. It must not be modified.
func (d Device) Slice() *resourceapi.ResourceSlice { return d.device().Slice.Object }

// PoolView is what a node can reach of one pool. It is immutable, and several nodes may share it.
type PoolView struct{ view *pool.View }

// Pool returns the pool.
func (v PoolView) Pool() Pool { return Pool{v.view.Pool} }

// Incomplete says why nothing may be allocated from the pool because slices are missing.
func (v PoolView) Incomplete() string { return v.view.Incomplete }

// Invalid says why nothing may be allocated from the pool on the node because its content
// is invalid.
func (v PoolView) Invalid() string { return v.view.Invalid }

// Usable reports whether devices may be allocated from the pool: it is neither incomplete
// nor invalid.
func (v PoolView) Usable() bool { return v.view.Usable() }

// Len is the number of devices on the node.
func (v PoolView) Len() int { return len(v.view.Here) }

// Devices lists the devices on the node in first-fit order, none if the pool is not Usable. A device whose node
// selector does not parse is not on the node.
func (v PoolView) Devices() iter.Seq[Device] {
	return each(v.view.Here, v.Pool().device)
}
