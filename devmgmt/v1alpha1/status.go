// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeviceClaimStatus is the allocation of a claim, and its users.
type DeviceClaimStatus struct {
	// ClassConfigs are the objects that the classes referred to when the claim was allocated.
	// +optional
	ClassConfigs []runtime.RawExtension `json:"classConfigs,omitempty"`

	// ClaimConfigs are the objects that the claim itself referred to at that time.
	// +optional
	ClaimConfigs []runtime.RawExtension `json:"claimConfigs,omitempty"`

	// Allocations are the allocated devices. The scheduler writes them.
	// +optional
	Allocations []DeviceAllocation `json:"allocations,omitempty"`

	// DeviceStatuses are the drivers' reports about these devices. Each entry belongs to the driver
	// of its pool.
	DeviceStatuses []DeviceStatus `json:"deviceStatuses,omitempty"`

	// PodNames are the pods that use the claim.
	// +optional
	PodNames []string `json:"podNames,omitempty"`
}

// DeviceAllocation is one allocated device of a claim.
type DeviceAllocation struct {
	// DevicePoolName is the pool of the device.
	// +required
	DevicePoolName string `json:"devicePoolName"`

	// DeviceName is the name of the device in its pool.
	// +required
	DeviceName string `json:"deviceName,omitempty"`

	// Allocations are the amounts of the device's own resources that the claim consumes, in whole
	// blocks. An amount may be less than the request, if several devices provide it together. It
	// may also be more, because it is rounded up.
	// +optional
	Allocations []ResourceAllocation `json:"allocations,omitempty"`
}

// ResourceAllocation is an amount of one resource.
type ResourceAllocation struct {
	// Name is the name of the resource.
	// +required
	Name string `json:"name"`

	// Allocation is the amount.
	// +required
	Allocation resource.Quantity `json:"allocation"`
}

// DeviceStatus is a driver's report about an allocated device.
type DeviceStatus struct {
	// DevicePoolName is the pool of the device.
	// +required
	DevicePoolName string `json:"devicePoolName"`

	// DeviceName is the name of the device in its pool.
	// +required
	DeviceName string `json:"deviceName,omitempty"`

	// Conditions are the state of the device.
	Conditions []metav1.Condition `json:"conditions"`

	// DeviceIP is the IP address of a network device.
	// +optional
	DeviceIP *string `json:"deviceIP,omitempty"`

	// DeviceIPs are all its IP addresses. The first is DeviceIP.
	// +optional
	DeviceIPs []DeviceIP `json:"deviceIPs,omitempty"`

	// DeviceInfo is additional information of the driver.
	// +optional
	DeviceInfo []runtime.RawExtension `json:"deviceInfo,omitempty"`

	// Allocations are the amounts of the device's own resources that the claim consumes.
	// +optional
	Allocations []ResourceAllocation `json:"allocations,omitempty"`
}

// DeviceIP is an IP address.
type DeviceIP struct {
	// IP is the address, as in 192.0.2.5.
	IP string `json:"ip,omitempty"`
}
