// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API devmgmtproto.k8s.io/v1alpha1, an early prototype of device
// management in Kubernetes: [DevicePool] says what devices there are, [DeviceClass] what kinds
// of them are offered, and [DeviceClaim] what somebody asks for.
//
// The types are data. They are as safe for concurrent use as other API types: any number of
// goroutines may read them while nobody writes.
//
//	pool.go       DevicePool: devices, attributes, and resources that devices share
//	class.go      DeviceClass: driver, device type, constraints, configuration
//	claim.go      DeviceClaim: what is asked for
//	status.go     DeviceClaim: what was allocated
//	attribute.go  one attribute, and when two are equal
//	defaults.go   what fields mean that are left out
//	register.go   the kinds in a scheme
//
// docs/devmgmt.md says, field by field, what resource.k8s.io/v1 has for it. Package
// devmgmt/validation checks objects, devmgmt/translate translates them.
//
// +k8s:deepcopy-gen=package
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod deepcopy-gen --go-header-file /dev/null --output-file zz_generated.deepcopy.go .
