package eligibility

import "github.com/dray-project/dray/internal/index/pool"

// Features are those of package allocator, which has the documentation. The two types convert
// into each other.
type Features struct {
	AdminAccess             bool
	CompatibilityGroups     bool
	ConsumableCapacity      bool
	DerivedAttributes       bool
	DeviceBindingAndStatus  bool
	DeviceTaints            bool
	FractionalCapacityRange bool
	ListTypeAttributes      bool
	OptionalNodeOperations  bool
	PartitionableDevices    bool
	PrioritizedList         bool
}

// PoolGates returns what a pools.Builder must be told about the features.
func (f Features) PoolGates() pool.Gates {
	return pool.Gates{
		PartitionableDevices: f.PartitionableDevices,
		CompatibilityGroups:  f.CompatibilityGroups,
		ConsumableCapacity:   f.ConsumableCapacity,
	}
}
