// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation checks objects of devmgmtproto.k8s.io/v1alpha1 against the rules that the
// documentation of the types states: names are there and occur once, an attribute has one value,
// a claim names a class or a type, and details or alternatives, and limits are not below
// requests.
//
// What is valid may still not be allocatable, and may still have no equivalent in
// resource.k8s.io/v1: the first is for allocation to say, the second for devmgmt/translate.
//
// Objects must have their defaults. They are not modified; everything is safe for concurrent use.
//
//	object.go  entry point, names, amounts, configuration
//	pool.go    pools, devices, attributes, resources
//	claim.go   claims and what they have been given
package validation
