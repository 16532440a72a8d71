// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	resourceapi "k8s.io/api/resource/v1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// ID identifies a device as ResourceSlices and claims do.
type ID struct {
	Driver string
	Pool   string
	Device string
}

// String is driver/pool/device, the form that Kubernetes uses in messages.
func (id ID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Device }

// Device is one record: a device, a partition of one, or a virtual function.
type Device struct {
	ID
	// Type is the device plugin's resource name without its namespace, such as
	// "gpu". The device plugin does not serve devices without a type.
	Type string

	// Attributes are what the source knows besides Topology, which becomes
	// Kubernetes' standard attributes. Those that the API server would refuse are not
	// published: see Unpublished.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	Capacity   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
	// Consumes refers to the pool's counter sets. Devices which consume the
	// same counters exclude each other.
	Consumes []resourceapi.DeviceCounterConsumption
	// Shares is how many users may have the device at the same time. Zero and
	// one both mean that it is exclusive.
	Shares int

	Health   Health
	Topology Topology
	// Taints are those that the device has besides the ones that its health and the other front
	// give it.
	Taints []resourceapi.DeviceTaint
	// Data and Network, if any, are what users of the device are told in the status of
	// their claim, as far as the API server takes it: see Unpublished. As JSON, Data must
	// not be longer than 10 KiB.
	Data    map[string]any
	Network *resourceapi.NetworkDeviceData
	// Edits are what a container needs to use the device.
	Edits cdispec.ContainerEdits
}

// Health is what the source knows about the state of a device. Its zero value
// is healthy.
type Health struct {
	// Unhealthy devices are tainted in ResourceSlices, and unhealthy for the
	// device plugin.
	Unhealthy bool
	// Evict has pods that use the device evicted, because it is of no use to them. It
	// has a meaning for unhealthy devices only.
	Evict bool
	// Reason says why in one word, such as "EccErrors", or is empty. TaintValue makes the value
	// of the taint of it, and ConditionReason the reason of the claim's condition.
	Reason string
	// Message is for people. ConditionMessage makes the message of the claim's condition of
	// it, and HealthMessage that of the health that kubelet is told.
	Message string
}

// Topology is where a device sits. Zero values are unknown.
type Topology struct {
	PCIBusID string // extended BDF notation: 0000:3b:00.0
	PCIeRoot string // root complex: pci0000:3a
	// NUMANodes are the nodes nearest to the device, the nearest first. Empty
	// means that the device has no affinity.
	NUMANodes []int
}

// CounterSet is what partitions of hardware in one pool have in common.
type CounterSet struct {
	Driver string
	Pool   string
	resourceapi.CounterSet
}

// Inventory is all of a node's devices at one moment, in the order in which
// they are to be allocated. Readers must not modify it.
type Inventory struct {
	Devices     []Device
	CounterSets []CounterSet
}
