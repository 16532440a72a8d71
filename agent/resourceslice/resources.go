// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import upstream "k8s.io/dynamic-resource-allocation/resourceslice"

// Types with which drivers describe their devices. They are upstream's, so that programs can use
// either package, with the same helpers.
type (
	// DriverResources has all pools of a controller, by name. Allocation visits pools in the order
	// of their names, those with binding conditions last.
	DriverResources = upstream.DriverResources

	// Pool is a set of devices which are published together.
	//
	// At most one of NodeSelector, AllNodes and the slices' PerDeviceNodeSelection may be set, and
	// none in pools whose owner is a node. Generation may be zero. The controller raises the
	// published generation when necessary, and to this value if it is higher.
	//
	// Slices become one ResourceSlice each. A slice's position is the start of its object's name,
	// as a hexadecimal number. Allocation goes through slices by name and through devices in their
	// order, so what is preferred comes first. Each slice must be valid by the rules of the API;
	// Split makes valid slices of any number of devices. A pool without devices is best published
	// with one empty slice, which shows that its driver is running.
	Pool = upstream.Pool

	// Slice is what the driver decides about one ResourceSlice.
	Slice = upstream.Slice

	// Owner is the owner reference of the ResourceSlices, for garbage collection. The owner must be
	// cluster-scoped. For a node, UID may be empty. The controller then looks it up, and again
	// after a slice was deleted, because the node may have been replaced.
	Owner = upstream.Owner

	// Stats counts successful writes.
	Stats = upstream.Stats
)

// isNode tells whether the owner is a v1.Node.
func isNode(owner *Owner) bool {
	return owner != nil && owner.APIVersion == "v1" && owner.Kind == "Node"
}
