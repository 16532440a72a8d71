// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API devmgmtproto.k8s.io/v1alpha1, an early prototype of device management
// in Kubernetes: [DevicePool] has existing devices, [DeviceClass] defines kinds of devices, and
// [DeviceClaim] requests devices.
//
// As with other API types, concurrent reads are safe while nobody writes.
//
//	pool.go       DevicePool: devices, attributes, and resources that devices share
//	class.go      DeviceClass: driver, device type, constraints, configuration
//	claim.go      DeviceClaim: the request
//	status.go     DeviceClaim: the allocation
//	attribute.go  attributes, and their comparison
//	defaults.go   defaults of fields
//	register.go   the kinds in a scheme
//
// docs/devmgmt.md has the counterpart of each field in resource.k8s.io/v1. Package
// devmgmt/validation checks objects, devmgmt/translate translates them.
//
// +k8s:deepcopy-gen=package
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod deepcopy-gen --go-header-file /dev/null --output-file zz_generated.deepcopy.go .
