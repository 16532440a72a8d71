// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
)

// ErrFailedAllocationOnNode marks errors which affect one node, not the whole
// scheduling attempt. It is upstream's own value: test with errors.Is.
var ErrFailedAllocationOnNode = structured.ErrFailedAllocationOnNode

// ErrUndecided marks errors of searches that spent their budget. They are ErrFailedAllocationOnNode as well:
// whether the claims fit the node is not known. Upstream has no such value.
var ErrUndecided = errors.New("undecided")

type (
	// Allocator allocates the claims of a pod on one node after the other.
	Allocator = structured.Allocator
	// DeviceClassLister looks up device classes. Its List takes no label selector, unlike that of client-go.
	DeviceClassLister = structured.DeviceClassLister
	// Features switches optional behaviour on.
	Features = structured.Features
	// DeviceID is driver, pool and name of a device.
	DeviceID = structured.DeviceID
	// SharedDeviceID is a DeviceID with the ID of a share.
	SharedDeviceID = structured.SharedDeviceID
	// AllocatedState is what allocated claims hold.
	AllocatedState = structured.AllocatedState
	// DeviceConsumedCapacity is what is consumed of one device.
	DeviceConsumedCapacity = structured.DeviceConsumedCapacity
	// ConsumedCapacityCollection is what is consumed, by device.
	ConsumedCapacityCollection = structured.ConsumedCapacityCollection
	// ConsumedCapacity is what is consumed, by capacity.
	ConsumedCapacity = structured.ConsumedCapacity
)

// MakeDeviceID returns the ID of a device.
func MakeDeviceID(driver, pool, device string) DeviceID {
	return structured.MakeDeviceID(driver, pool, device)
}

// MakeSharedDeviceID returns the ID of a share of a device.
func MakeSharedDeviceID(deviceID DeviceID, shareID *types.UID) SharedDeviceID {
	return structured.MakeSharedDeviceID(deviceID, shareID)
}

// NewConsumedCapacityCollection returns an empty collection.
func NewConsumedCapacityCollection() ConsumedCapacityCollection {
	return structured.NewConsumedCapacityCollection()
}

// NewDeviceConsumedCapacity returns what is consumed of one device.
func NewDeviceConsumedCapacity(deviceID DeviceID, consumedCapacity map[resourceapi.QualifiedName]resource.Quantity) DeviceConsumedCapacity {
	return structured.NewDeviceConsumedCapacity(deviceID, consumedCapacity)
}

// IsDeviceAllocated reports whether a device is in use, wholly or in part.
func IsDeviceAllocated(deviceID DeviceID, allocatedState *AllocatedState) bool {
	return structured.IsDeviceAllocated(deviceID, allocatedState)
}

// EnableAllocators exists for programs that call upstream's function in tests. There is only one allocator
// here, so names are ignored.
func EnableAllocators(names ...string) {}

// NodeMatches reports whether a node is the named one, or, without a name, whether all nodes match or the
// selector matches the node. An error means that the selector cannot be parsed. Features make no difference.
func NodeMatches(features Features, node *corev1.Node, nodeNameToMatch string, allNodesMatch bool, nodeSelector *corev1.NodeSelector) (bool, error) {
	return structured.NodeMatches(features, node, nodeNameToMatch, allNodesMatch, nodeSelector)
}
