package pool

import (
	"cmp"
	"strings"
)

// Gates are the features which decide what of ResourceSlices and allocated claims is
// looked at.
type Gates struct {
	// PartitionableDevices honours shared counters and per-device node
	// selection. Without it, slices which use either are passed over: they count
	// for the completeness of their pool, but contribute nothing.
	PartitionableDevices bool
	// CompatibilityGroups honours compatibility groups. Without it, slices with
	// devices that declare groups are left out, which makes their pool incomplete.
	CompatibilityGroups bool
	// ConsumableCapacity honours share IDs. Without it, an allocated share takes the
	// whole device, as in kube-scheduler.
	ConsumableCapacity bool
}

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
