// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DevicePool is a set of devices that one driver manages, mostly of one kind on one node. A node
// may have several pools of the same driver. It is cluster-scoped.
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

// DevicePoolSpec has the driver, the location, and the devices. It does not say which of them are
// in use.
type DevicePoolSpec struct {
	// NodeName is the node that has the devices. If it is not set, all nodes reach the devices, for
	// instance network-attached ones.
	// +optional
	NodeName *string `json:"nodeName,omitempty"`

	// Driver is the name of the driver that publishes the pool and manages its devices.
	// +required
	Driver string `json:"driver,omitempty"`

	// Attributes are attributes of all devices in the pool. A device's own attribute of the same
	// name takes precedence.
	// +optional
	Attributes []Attribute `json:"attributes,omitempty"`

	// Resources are shared by the devices of the pool, such as the memory of a GPU whose partitions
	// are the devices. A device consumes what its Requests say.
	// +optional
	Resources []ResourceCapacity `json:"resources,omitempty"`

	// Devices can be allocated. They are tried in this order.
	// +required
	Devices []Device `json:"devices,omitempty"`
}

// DevicePoolStatus is the state that the driver last observed. It does not include later
// allocations by the scheduler, so it must not be used for allocation.
type DevicePoolStatus struct {
	// AvailableDevices is the number of devices that were not in use.
	AvailableDevices int `json:"availableDevices,omitempty"`
}

// Device is one device of a pool.
type Device struct {
	// Name identifies the device within its pool.
	// +required
	Name string `json:"name"`

	// Attributes are properties of the device. They take precedence over attributes of the pool
	// with the same name.
	// +optional
	Attributes []Attribute `json:"attributes,omitempty"`

	// Requests are the amounts of the pool's resources, by name, that are in use while the device
	// is allocated. They do not depend on the number of claims that share the device.
	// +optional
	Requests map[string]resource.Quantity `json:"requests,omitempty"`

	// Resources are the device's own. If there are any, several claims may share the device, and
	// each consumes what it requests.
	// +optional
	Resources []ResourceCapacity `json:"resources,omitempty"`
}

// ResourceCapacity is the capacity of a resource, of which claims or devices consume parts.
type ResourceCapacity struct {
	// Name is the name of the resource, such as memory.
	Name string `json:"name"`

	// Capacity is the total amount.
	// +required
	Capacity resource.Quantity `json:"capacity"`

	// BlockSize is the unit of consumption: each amount is rounded up to a multiple of it. The
	// default is 1.
	// +optional
	BlockSize *resource.Quantity `json:"blockSize,omitempty"`
}
