// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation validates objects of devmgmtproto.k8s.io/v1alpha1 by the rules in the
// documentation of the types. Names are required and unique, and an attribute has one value. A
// claim names a class or a type, and has details or alternatives. Limits are not below requests.
//
// A valid object may still be impossible to allocate, which allocation reports. It may have no
// equivalent in resource.k8s.io/v1, which devmgmt/translate reports.
//
// Objects must have their defaults. They are not modified, and all functions are safe for
// concurrent use.
//
//	object.go  entry point, names, amounts, configuration
//	pool.go    pools, devices, attributes, resources
//	claim.go   claims and their allocations
package validation
