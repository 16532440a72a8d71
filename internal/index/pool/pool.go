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

// Gates are pools.Gates, which documents them.
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

// Pool is a pool at its highest generation. It is immutable: a change of any of its slices makes a new Pool.
// Pools can thus be compared by address.
type Pool struct {
	ID ID
	// uniqueNames are the interned names of the driver, the pool and its devices. named runs when they are
	// first needed. They are next to ID, as both are mostly read together.
	uniqueNames []unique.Handle[string]
	named       sync.Once
	// Slot is the position of the pool in arrays over a whole cluster. It is the same for all Pools of one ID
	// that a builder makes, and unique among the pools of a snapshot.
	Slot int
	// Generation is the highest generation among all slices of the pool.
	Generation int64
	// SliceCount is resourceSliceCount, the number of slices that the pool should have. Present is how many of
	// them exist.
	SliceCount, Present int64
	// Slices are those of that generation that contribute devices or counter sets, sorted by object name.
	Slices []*Slice
	// Devices are the devices of Slices, in the order of Slices and as listed there.
	Devices []Device
	// Measured is set if any device has capacities, Consuming if any consumes counters.
	Measured, Consuming bool
	// Optional is set if a slice with devices depends on the features that nodes declare (skipNodeOperations).
	Optional bool
	// UseEnables is set if usage can make more devices available than there are with nothing in use. Either
	// later shares of a device do not draw on its counters again, or a device has a negative consumption.
	UseEnables bool
	// SelectsNodes is set if more than the name of a node decides what it reaches of the pool.
	SelectsNodes bool
	// Elsewhere is the view of all nodes that the pool does not name. It is nil if it does not reach them, or
	// if SelectsNodes is set.
	Elsewhere *View
	// CounterSets are sorted by name. Empty if the pool is incomplete or invalid, or if partitionable devices
	// are gated off.
	CounterSets []CounterSet
	// Counters are those of CounterSets, one set after the other, sorted by name within each.
	Counters []Counter
	// Incomplete says why slices are missing. Empty if the pool is complete.
	Incomplete string
	// Invalid says what is wrong with the counters of a complete pool, on all nodes. Empty if they are valid.
	Invalid string

	// byName has the devices sorted by name, then by index.
	byName []DeviceIndex
	// hasRepeatedNames is set if a device name occurs more than once.
	hasRepeatedNames bool
	// hasGroups is set if a device declares compatibility groups. consumers are then, by counter set, the devices
	// that draw on it, ascending.
	hasGroups bool
	consumers [][]DeviceIndex
	// idle is the usage with nothing in use.
	idle *Usage
	// faulty are the slices of any generation with a node selector that does not parse.
	faulty []*reach
	routes routes
	// recent caches the last result of NewUsage without shares.
	recent atomic.Pointer[recentUsage]
}

// Slice is one ResourceSlice of a Pool.
type Slice struct {
	Object *resourceapi.ResourceSlice
	// First is the index of the slice's first device, Count the number of its devices. Slices with counter sets
	// have none.
	First DeviceIndex
	Count int32

	reach *reach
}

// Device is one device of a Pool.
type Device struct {
	Object *resourceapi.Device
	Slice  *Slice
	Shape  *shape.Shape
	// Multiple is allowMultipleAllocations.
	Multiple bool
	// ConsumesCounters is set if the device lists consumed counters, even if Uses and Groups are empty because
	// of a gate.
	ConsumesCounters bool
	// Plain is set if the slice names the node, and allocation results repeat no other field of slice or device
	// (binding conditions, node operations to skip). Results can then be built without looking
	// at the slice.
	Plain bool
	// Uses is what the device draws on counters while it is allocated, summed up by counter, sorted by counter.
	// Empty in incomplete and invalid pools.
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

// CounterUse is how much a device draws on a counter.
type CounterUse struct {
	Counter CounterIndex
	Amount  amount.Amount
}

// GroupUse has the compatibility groups in which a device consumes a counter set.
type GroupUse struct {
	Set CounterSetIndex
	// Groups is sorted, without duplicates. Nil if the device declares none.
	Groups []string
}

// Handle is a device of a pool, for packages that must not access the pool.
type Handle struct {
	pool  *Pool
	index DeviceIndex
}

// HandleOf returns the Handle of a device.
func HandleOf(p *Pool, i DeviceIndex) Handle { return Handle{p, i} }

// Split returns the pool and the index of a Handle.
func (h Handle) Split() (*Pool, DeviceIndex) { return h.pool, h.index }

// UniqueNames returns the interned names of the driver, the pool and a device. The first call interns those of
// all devices.
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

// Idle returns the usage with nothing in use.
func (p *Pool) Idle() *Usage { return p.idle }

// Repeats reports whether a device name occurs more than once.
func (p *Pool) Repeats() bool { return p.hasRepeatedNames }

// Lookup returns the devices with a name: none, one, or several if slices for different nodes repeat the name.
// The result must not be modified.
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
		p.hasRepeatedNames = p.hasRepeatedNames || c == 0 && a != b
		return cmp.Or(c, cmp.Compare(a, b))
	})
}
