// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceCount is the name of a resource that every driver has: the number of devices.
const ResourceCount = "count"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DeviceClaim requests devices and, once it is allocated, has the allocated ones. It is namespaced.
type DeviceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DeviceClaimSpec   `json:"spec,omitempty"`
	Status DeviceClaimStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DeviceClaimList is a list of claims.
type DeviceClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeviceClaim `json:"items"`
}

// DeviceClaimSpec is the request for devices.
type DeviceClaimSpec struct {
	// MatchAttributes are names of attributes. For each, all devices of all Claims must have the
	// same value.
	// +optional
	MatchAttributes []string `json:"matchAttributes,omitempty"`

	// PreferredMatchAttributes are like MatchAttributes, but devices may have different values if
	// there is no better solution. The most important comes first, and all of them are more
	// important than those of the Claims. The API as it was published has no such field.
	// +optional
	PreferredMatchAttributes []string `json:"preferredMatchAttributes,omitempty"`

	// Claims must all be satisfied.
	// +required
	Claims []DeviceClaimInstance `json:"claims,omitempty"`
}

// DeviceClaimInstance requests devices in one way, or in one of several ways: either fields of
// DeviceClaimDetail are set, or OneOf is.
type DeviceClaimInstance struct {
	DeviceClaimDetail `json:",inline"`

	// OneOf are alternatives, the preferred one first. One of them must be satisfied.
	// +optional
	OneOf []DeviceClaimDetail `json:"oneOf,omitempty"`
}

// DeviceClaimDetail requests devices of one class or one type.
type DeviceClaimDetail struct {
	// DeviceType requests devices of any class that has this type. Either it or DeviceClass is set.
	// +optional
	DeviceType *string `json:"deviceType,omitempty"`

	// DeviceClass is the name of the requested class.
	// +optional
	DeviceClass *string `json:"deviceClass,omitempty"`

	// Constraints is a CEL expression like that of the class. Both must be true for a device.
	// +optional
	Constraints *string `json:"constraints,omitempty"`

	// Requests are the minimum amounts, by name of the resource, that all devices of this claim
	// have together. "count" is the number of devices. The default is a single device.
	Requests map[string]resource.Quantity `json:"requests,omitempty"`

	// Limits are the maximum amounts. A limit of "count" above the request lets the claim get more
	// devices than it needs.
	Limits map[string]resource.Quantity `json:"limits,omitempty"`

	// MatchAttributes are names of attributes. For each, all devices of this claim must have the
	// same value.
	// +optional
	MatchAttributes []string `json:"matchAttributes,omitempty"`

	// PreferredMatchAttributes are like MatchAttributes, but devices may have different values if
	// there is no better solution. The most important comes first; those of a claim before are more
	// important. The API as it was published has no such field.
	// +optional
	PreferredMatchAttributes []string `json:"preferredMatchAttributes,omitempty"`

	// Configs refer to objects that configure the devices. The driver interprets them.
	// +optional
	Configs []DeviceConfigReference `json:"configs,omitempty"`
}

// DeviceConfigReference names an object in the namespace of the claim.
type DeviceConfigReference struct {
	// APIVersion of the object.
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind of the object.
	// +required
	Kind string `json:"kind"`

	// Name of the object.
	// +required
	Name string `json:"name"`
}
