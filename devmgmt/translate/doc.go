// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package translate translates devmgmtproto.k8s.io/v1alpha1 to resource.k8s.io/v1 and back.
//
//	DevicePools, DeviceClasses, DeviceClaims ──ToV1──► ResourceSlices, DeviceClasses, ResourceClaims
//	                                         ◄─FromV1─
//
// # Contract
//
// A translation without [Reason] means the same: the same devices are allocated to the same
// claims, in the same order of preference. What the other API cannot say is a Reason that names
// the field. The translated object then lacks what the field says, or is missing as a whole, so
// that it is of use only to somebody who knows that it lacks something.
//
// Where one API has several ways to say the same and the other has one, the way is not kept. So
// FromV1 returns what ToV1 was given in normal form: attributes that all devices of a pool share
// are attributes of the pool, and others of the device, sorted by name; what devices take of the
// pool is in whole blocks; expressions are spaced and quoted in one way; what says the same as
// leaving it out is left out. docs/devmgmt.md has the rules, field by field.
//
// A claim is translated together with its class, because the class decides what driver its
// attributes belong to and whether it has admin access; and together with the pools, because they
// decide which attributes are amounts. Objects must be valid and have their defaults. They are not
// modified, but the translation shares memory with them. Everything is safe for concurrent use.
//
//	objects.go     what is translated, and the reasons why not
//	tov1.go        one translation to v1
//	vocabulary.go  what drivers call what, in both APIs
//	pool.go        DevicePool → ResourceSlices; capacity.go its resources
//	class.go       DeviceClass → DeviceClass
//	claim.go       DeviceClaim → ResourceClaim; detail.go one request of it
//	config.go      references to configuration → configuration
//	status.go      what is allocated
//	fromv1.go      ResourceSlices → DevicePool; fromclass.go, fromclaim.go the other kinds
package translate
