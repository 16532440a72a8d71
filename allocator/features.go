// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

// Features switches optional allocation behaviour on. The names follow the Kubernetes feature gates of the same
// meaning (prefix "DRA"). A feature that is off makes requests that need it an error, and hides devices and
// slices that need it. Features gate compilation of a Problem and the building of a pools.Snapshot, never the
// search.
//
// The fields are those of upstream's structured.Features in v0.37, so the two
// types convert into each other.
type Features struct {
	AdminAccess             bool // KEP-5018
	CompatibilityGroups     bool
	ConsumableCapacity      bool // KEP-5075
	DerivedAttributes       bool
	DeviceBindingAndStatus  bool // KEP-5007
	DeviceTaints            bool // KEP-5055
	FractionalCapacityRange bool // KEP-5075
	ListTypeAttributes      bool // KEP-5491
	OptionalNodeOperations  bool
	PartitionableDevices    bool // KEP-4815
	PrioritizedList         bool // KEP-4816
}

// AllFeatures returns Features with everything switched on.
func AllFeatures() Features {
	return Features{
		AdminAccess:             true,
		CompatibilityGroups:     true,
		ConsumableCapacity:      true,
		DerivedAttributes:       true,
		DeviceBindingAndStatus:  true,
		DeviceTaints:            true,
		FractionalCapacityRange: true,
		ListTypeAttributes:      true,
		OptionalNodeOperations:  true,
		PartitionableDevices:    true,
		PrioritizedList:         true,
	}
}
