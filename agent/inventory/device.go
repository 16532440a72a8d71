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

// String returns driver/pool/device, as Kubernetes does in messages.
func (id ID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Device }

// Device is a device, a partition of a device, or a virtual function.
type Device struct {
	ID
	// Type is the device plugin's resource name without its namespace, such as
	// "gpu". The device plugin does not serve devices without a type.
	Type string

	// Attributes are attributes of the source. The attributes that Kubernetes defines come from
	// Topology. Attributes that the API server would refuse are not published: see Unpublished.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	Capacity   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
	// Consumes has the device's consumption of the pool's counter sets. If the counters do not
	// suffice for two devices, only one of them can be allocated.
	Consumes []resourceapi.DeviceCounterConsumption
	// Shares is how many users may have the device at the same time. Zero and one mean that it is
	// exclusive.
	Shares int

	Health   Health
	Topology Topology
	// Taints are taints in addition to those for health and for use through the other front. A device with a taint that the API
	// server would refuse, or with more than 15 taints in all, is not published: see Unpublished.
	Taints []resourceapi.DeviceTaint
	// Data and Network, if set, are reported to users in the status of their claim, if the API
	// server accepts them: see Unpublished. Data must not exceed 10 KiB as JSON.
	Data    map[string]any
	Network *resourceapi.NetworkDeviceData
	// Edits are the CDI container edits that a container needs to use the device.
	Edits cdispec.ContainerEdits
}

// Health is the state of a device according to the source. The zero value is healthy.
type Health struct {
	// Unhealthy devices have a taint in ResourceSlices, and are unhealthy for the device plugin.
	Unhealthy bool
	// Evict evicts pods that use the device, because it no longer works for them. It matters only
	// for unhealthy devices.
	Evict bool
	// Reason is one word that says why, such as "EccErrors", or is empty. TaintValue converts it to
	// the value of the taint, and ConditionReason to the reason of the claim's condition.
	Reason string
	// Message is a text for users. ConditionMessage converts it to the message of the claim's
	// condition, and HealthMessage to that of the health that kubelet gets.
	Message string
}

// Topology is the position of a device in the machine. Zero values are unknown.
type Topology struct {
	PCIBusID string // extended BDF notation: 0000:3b:00.0
	PCIeRoot string // root complex: pci0000:3a
	// NUMANodes are the NUMA nodes of the device, the nearest first. If there are none, the device
	// has no affinity.
	NUMANodes []int
}

// CounterSet has counters that partitions of hardware in one pool consume.
type CounterSet struct {
	Driver string
	Pool   string
	resourceapi.CounterSet
}

// Inventory has all devices of a node at one moment, in the order of allocation. Readers must not
// modify it.
type Inventory struct {
	Devices     []Device
	CounterSets []CounterSet
}
