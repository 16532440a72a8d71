// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/shape"
)

// Gates are those of package pools, which tells what they mean.
type Gates struct{ PartitionableDevices, CompatibilityGroups, ConsumableCapacity bool }

// ID identifies a pool in a cluster.
type ID struct{ Driver, Name string }

// String returns "driver/name".
func (id ID) String() string { return id.Driver + "/" + id.Name }

// Compare orders by driver, then name.
func (id ID) Compare(other ID) int {
	return cmp.Or(strings.Compare(id.Driver, other.Driver), strings.Compare(id.Name, other.Name))
}

// DeviceID identifies a device in a cluster.
type DeviceID struct{ Driver, Pool, Device string }

// String returns "driver/pool/device".
func (id DeviceID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Device }

// PoolID returns the pool that the device belongs to.
func (id DeviceID) PoolID() ID { return ID{Driver: id.Driver, Name: id.Pool} }

// DeviceIndex is a position in Pool.Devices.
type DeviceIndex int32

// CounterIndex is a position in Pool.Counters.
type CounterIndex int32

// CounterSetIndex is a position in Pool.CounterSets.
type CounterSetIndex int32

// Pool is a pool at its highest generation. It is immutable; a change of any of
// its slices makes a new Pool, so the pointer stands for the content.
type Pool struct {
	ID ID
	// uniqueNames are driver, pool and devices, once named. They stand beside the ID because who asks for
	// one mostly asks for the other.
	uniqueNames []unique.Handle[string]
	named       sync.Once
	// Slot is the position of the pool in lists that stand for a whole cluster. It stays
	// the same for all Pools of one ID that a builder makes and is unique among the pools
	// of a snapshot.
	Slot int
	// Generation is the highest generation among all slices of the pool.
	Generation int64
	// SliceCount is how many slices the pool has by its own account
	// (resourceSliceCount), Present how many of them there are.
	SliceCount, Present int64
	// Slices are the slices of that generation which contribute devices or
	// counter sets, sorted by object name.
	Slices []*Slice
	// Devices are the devices of Slices, in the order of Slices and as listed.
	Devices []Device
	// Measured and Consuming are set if any of Devices has capacities, or lists consumed counters.
	Measured, Consuming bool
	// Optional is set if a slice with devices depends on which features nodes declare.
	Optional bool
	// UseEnables is set if what is in use of a device may make something obtainable: further shares of it do not
	// pay what it draws on counters, or it gives back more than it takes.
	UseEnables bool
	// SelectsNodes is set if more than the name of a node decides whether it reaches the pool, and what of it.
	SelectsNodes bool
	// Elsewhere is the view of the nodes which the pool does not name, if it reaches them and SelectsNodes is not set.
	Elsewhere *View
	// CounterSets are sorted by name. Empty if the pool is incomplete or invalid
	// or partitionable devices are gated off.
	CounterSets []CounterSet
	// Counters are those of CounterSets, set after set, each sorted by name.
	Counters []Counter
	// Incomplete says why slices are missing. Empty if the pool is complete.
	Incomplete string
	// Invalid says what is wrong with the counters of a complete pool, for all
	// nodes. Empty if nothing is.
	Invalid string

	// byName has the devices sorted by name, then by index.
	byName []DeviceIndex
	// repeats is set if any device name occurs more than once.
	repeats bool
	// grouped is set if a device declares compatibility groups, consumers has the devices that draw from
	// each counter set then, ascending.
	grouped   bool
	consumers [][]DeviceIndex
	// idle is the usage of the pool while none of its devices is in use.
	idle *Usage
	// faulty are the slices of any generation whose evaluation can fail.
	faulty []*reach
	routes routes
	// recent is the last result of NewUsage that may well be asked for again.
	recent atomic.Pointer[recentUsage]
}

// Slice is one ResourceSlice of a Pool.
type Slice struct {
	Object *resourceapi.ResourceSlice
	// First is the index of the slice's first device, Count how many there are.
	// Slices with counter sets have none.
	First DeviceIndex
	Count int32

	reach *reach
}

// Device is one device of a Pool.
type Device struct {
	Object *resourceapi.Device
	Slice  *Slice
	Shape  *shape.Shape
	// Multiple: the device may be allocated several times (allowMultipleAllocations).
	Multiple bool
	// ConsumesCounters: the device lists consumed counters, whether or not the
	// gate lets Uses and Groups say which.
	ConsumesCounters bool
	// Plain: the slice names the node, and neither slice nor device have anything else that an
	// allocation result repeats (binding conditions, node operations to skip). Results can be built
	// without looking at the slice.
	Plain bool
	// Uses is what the device takes from counters while it is allocated, summed
	// per counter, sorted by counter. Empty in incomplete and invalid pools.
	Uses []CounterUse
	// Groups has one element per consumed counter set, in the order listed. Empty if no device of the pool
	// declares compatibility groups.
	Groups []GroupUse
}

// CounterSet is a named range of Pool.Counters.
type CounterSet struct {
	Name         string
	First, Count CounterIndex
}

// Counter is one counter of a counter set.
type Counter struct {
	Set      CounterSetIndex
	Name     string
	Total    amount.Amount
	Quantity resource.Quantity // Total as published
}

// CounterUse is how much a device takes from a counter.
type CounterUse struct {
	Counter CounterIndex
	Amount  amount.Amount
}

// GroupUse names the compatibility groups in which a device consumes a counter set.
type GroupUse struct {
	Set CounterSetIndex
	// Groups is sorted and without repeats. Nil: the device declares none.
	Groups []string
}

// Handle is a device of a pool for those who must not see more of it.
type Handle struct {
	pool  *Pool
	index DeviceIndex
}

// HandleOf returns the Handle of a device.
func HandleOf(p *Pool, i DeviceIndex) Handle { return Handle{p, i} }

// Split takes a Handle apart.
func (h Handle) Split() (*Pool, DeviceIndex) { return h.pool, h.index }

// UniqueNames returns the names of the driver, the pool and a device. The first call makes those of all
// devices, at the cost of a look-up each.
func (p *Pool) UniqueNames(i DeviceIndex) (driver, pool, device unique.Handle[string]) {
	p.named.Do(p.setUniqueNames)
	return p.uniqueNames[0], p.uniqueNames[1], p.uniqueNames[2+i]
}

func (p *Pool) setUniqueNames() {
	p.uniqueNames = make([]unique.Handle[string], 0, 2+len(p.Devices))
	p.uniqueNames = append(p.uniqueNames, unique.Make(p.ID.Driver), unique.Make(p.ID.Name))
	for i := range p.Devices {
		p.uniqueNames = append(p.uniqueNames, unique.Make(p.Devices[i].Object.Name))
	}
}

// Idle returns the usage of the pool while none of its devices is in use.
func (p *Pool) Idle() *Usage { return p.idle }

// Repeats reports whether any device name occurs more than once.
func (p *Pool) Repeats() bool { return p.repeats }

// Lookup returns the devices of a name: none, one, or several if slices for
// different nodes repeat the name. The result must not be modified.
func (p *Pool) Lookup(device string) []DeviceIndex {
	first, _ := slices.BinarySearchFunc(p.byName, device, func(i DeviceIndex, name string) int {
		return strings.Compare(p.Devices[i].Object.Name, name)
	})
	end := first
	for end < len(p.byName) && p.Devices[p.byName[end]].Object.Name == device {
		end++
	}
	return p.byName[first:end:end]
}

// DeviceID returns the cluster-wide identity of a device of the pool.
func (p *Pool) DeviceID(i DeviceIndex) DeviceID {
	return DeviceID{Driver: p.ID.Driver, Pool: p.ID.Name, Device: p.Devices[i].Object.Name}
}

func (p *Pool) sortNames() {
	p.byName = make([]DeviceIndex, len(p.Devices))
	for i := range p.byName {
		p.byName[i] = DeviceIndex(i)
	}
	slices.SortFunc(p.byName, func(a, b DeviceIndex) int {
		c := strings.Compare(p.Devices[a].Object.Name, p.Devices[b].Object.Name)
		p.repeats = p.repeats || c == 0 && a != b
		return cmp.Or(c, cmp.Compare(a, b))
	})
}
