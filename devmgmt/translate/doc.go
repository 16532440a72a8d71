// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package translate translates devmgmtproto.k8s.io/v1alpha1 to resource.k8s.io/v1 and back.
//
//	DevicePools, DeviceClasses, DeviceClaims ──ToV1──► ResourceSlices, DeviceClasses, ResourceClaims
//	                                         ◄─FromV1─
//
// # Contract
//
// A translation without a [Reason] is equivalent: the same devices are allocated to the same
// claims, in the same order of preference. If the other API cannot express a field, there is a
// Reason that names it. The translated object then lacks that field, or is missing, so callers must
// check the Reasons.
//
// If one API has several forms for the same meaning, the form is not kept. So FromV1 returns the
// input of ToV1 in a normal form. Attributes that all devices of a pool share are attributes of the
// pool, and others of the device, sorted by name. Amounts of pool resources are whole blocks.
// Expressions have normalized white space and quotes. Fields with the default value are left out.
// docs/devmgmt.md has the rules for each field.
//
// A claim is translated together with its class, which determines the driver of its attributes, and
// admin access. The pools are needed, too, because they determine which attributes are amounts.
// Objects must be valid and have their defaults. They are not modified, but the translation shares
// memory with them. All functions are safe for concurrent use.
//
//	objects.go     input, output and reasons
//	tov1.go        one translation to v1
//	vocabulary.go  names of attributes and resources in both APIs
//	pool.go        DevicePool → ResourceSlices; capacity.go its resources
//	class.go       DeviceClass → DeviceClass
//	claim.go       DeviceClaim → ResourceClaim; detail.go one request of it
//	config.go      references to configuration → configuration
//	status.go      allocations
//	fromv1.go      ResourceSlices → DevicePool; fromclass.go, fromclaim.go the other kinds
package translate
