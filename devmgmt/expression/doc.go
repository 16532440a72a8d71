// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression checks the CEL expressions of devmgmtproto.k8s.io/v1alpha1, and rewrites
// them to those of resource.k8s.io/v1 and back.
//
// In the prototype the variable device holds the attributes of a device by name:
//
//	device.model == "a100" && "numa" in device
//
// In v1, attributes belong to domains, and capacities are separate from attributes:
//
//	device.attributes["gpu.example.com"].model == "a100" && "numa" in device.attributes["gpu.example.com"]
//
// In both, reading an attribute that a device lacks is an error, unless the expression tests for it
// first. Everything else of the language, and all functions, are those of v1.
//
// Expressions are rewritten as syntax trees, so that strings, comments and other variables are not
// mistaken for attributes. Macros such as has and exists stay what they are. All functions are safe
// for concurrent use.
//
//	expression.go  Check, ToV1, FromV1
//	tree.go        finding and replacing what reads attributes
package expression
