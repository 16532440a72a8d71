// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DevicePool is a set of devices that one driver looks after, mostly those of one kind on one
// node. A node may have several pools of the same driver. It has no namespace.
type DevicePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DevicePoolSpec   `json:"spec,omitempty"`
	Status DevicePoolStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DevicePoolList is a list of pools.
type DevicePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DevicePool `json:"items"`
}

// DevicePoolSpec says who drives the devices, where they are, and what they are. It says nothing
// of what is in use.
type DevicePoolSpec struct {
	// NodeName is the node that has the devices. Left out, all nodes reach them, as is the case
	// with devices in a network.
	// +optional
	NodeName *string `json:"nodeName,omitempty"`

	// Driver is the name of the driver which publishes the pool and owns what is in it.
	// +required
	Driver string `json:"driver,omitempty"`

	// Attributes are those of every device in the pool, unless the device has one of that name.
	// +optional
	Attributes []Attribute `json:"attributes,omitempty"`

	// Resources are what the devices of the pool share, such as the memory of a GPU whose
	// partitions are the devices. Devices take from them as their Requests say.
	// +optional
	Resources []ResourceCapacity `json:"resources,omitempty"`

	// Devices are what can be allocated, in the order in which they are tried.
	// +required
	Devices []Device `json:"devices,omitempty"`
}

// DevicePoolStatus is what the driver saw last. What the scheduler has allocated since is not in
// it, so it is of no use for allocating.
type DevicePoolStatus struct {
	// AvailableDevices is how many devices were not in use.
	AvailableDevices int `json:"availableDevices,omitempty"`
}

// Device is one device of a pool.
type Device struct {
	// Name identifies the device within its pool.
	// +required
	Name string `json:"name"`

	// Attributes are facts about the device. They take precedence over attributes of the pool
	// that have the same name.
	// +optional
	Attributes []Attribute `json:"attributes,omitempty"`

	// Requests are the amounts of the pool's resources, by name, which are in use while the
	// device is allocated, however many claims share the device.
	// +optional
	Requests map[string]resource.Quantity `json:"requests,omitempty"`

	// Resources are the device's own. Several claims may share a device that has any: each takes
	// what it requests of them.
	// +optional
	Resources []ResourceCapacity `json:"resources,omitempty"`
}

// ResourceCapacity is an amount of a resource from which parts can be taken.
type ResourceCapacity struct {
	// Name is that of the resource, such as memory.
	Name string `json:"name"`

	// Capacity is how much there is in all.
	// +required
	Capacity resource.Quantity `json:"capacity"`

	// BlockSize is the unit in which it is taken: each amount is rounded up to a multiple. 1 if
	// left out.
	// +optional
	BlockSize *resource.Quantity `json:"blockSize,omitempty"`
}
