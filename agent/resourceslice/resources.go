// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import upstream "k8s.io/dynamic-resource-allocation/resourceslice"

// What drivers describe their devices with. The types are upstream's, so that a program may
// build them with either package, and helpers of others for one serve the other.
type (
	// DriverResources is all that a controller publishes: pools by name. Allocation visits
	// pools with binding conditions last, and otherwise goes by the name.
	DriverResources = upstream.DriverResources

	// Pool is a set of devices which are published together.
	//
	// At most one of NodeSelector, AllNodes and the slices' PerDeviceNodeSelection may be
	// set, and none in pools whose owner is a node. Generation may be zero: the controller
	// raises the published generation by itself when it must, and to this one if this one is
	// higher.
	//
	// Slices become one ResourceSlice each. A slice's position is the start of its object's
	// name, as a hexadecimal number. Allocation goes through slices by name and through
	// devices in their order, so what is preferred comes first. Each slice must be valid by
	// the rules of the API; Split makes valid slices of any number of devices. A pool which
	// has no device at the moment is best published with one empty slice: this shows that its
	// driver is running.
	Pool = upstream.Pool

	// Slice is what the driver decides about one ResourceSlice.
	Slice = upstream.Slice

	// Owner is what the ResourceSlices name as their owner: they are garbage when it is gone.
	// It must be cluster-scoped. UID may be empty for a node: the controller then looks it up,
	// and again after a slice was deleted, since the node may be another one under the same name.
	Owner = upstream.Owner

	// Stats counts successful writes.
	Stats = upstream.Stats
)

// isNode tells whether the owner is a v1.Node.
func isNode(owner *Owner) bool {
	return owner != nil && owner.APIVersion == "v1" && owner.Kind == "Node"
}
