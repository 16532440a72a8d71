// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DeviceClass is a kind of devices that claims can request by name. A vendor or an administrator
// provides it. It is cluster-scoped.
type DeviceClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DeviceClassSpec `json:"spec,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DeviceClassList is a list of classes.
type DeviceClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeviceClass `json:"items"`
}

// DeviceClassSpec defines which devices are of the class, and how they are configured.
type DeviceClassSpec struct {
	// Driver is the driver whose pools have the devices of the class.
	// +required
	Driver string `json:"driver,omitempty"`

	// DeviceType is a vendor-neutral type of devices, such as sriov-nic. Any class of the type can
	// serve a claim for the type.
	// +required
	DeviceType string `json:"deviceType,omitempty"`

	// Constraints is a CEL expression which is true for the devices of the class. The attributes
	// of a device are the fields of the variable device: device.model == "a100".
	// +optional
	Constraints *string `json:"constraints,omitempty"`

	// AdminAccess gives claims for the class access to devices that others use, for instance to
	// monitor them. Such claims get devices whether or not these are in use, and consume nothing.
	// +optional
	AdminAccess *bool `json:"adminAccess,omitempty"`

	// Configs refer to objects that configure the devices. The driver interprets them.
	// +optional
	Configs []DeviceClassConfigReference `json:"configs,omitempty"`
}

// DeviceClassConfigReference names an object in any namespace. That is permitted, because
// administrators write classes.
type DeviceClassConfigReference struct {
	// APIVersion of the object.
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind of the object.
	// +required
	Kind string `json:"kind"`

	// Namespace of the object.
	// +required
	Namespace string `json:"namespace"`

	// Name of the object.
	// +required
	Name string `json:"name"`
}
