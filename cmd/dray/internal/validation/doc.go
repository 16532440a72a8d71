// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation refuses objects that an API server would refuse and that
// would otherwise give allocation a wrong or confusing answer.
//
// It takes what the API server of Kubernetes 1.37 takes, also where the documentation of the API wants more: that is what
// allocation meets in a cluster. Rules that do not matter to allocation (annotations, conditions, most of what pods have) are
// left to the API server. A valid claim may still be impossible to allocate, for instance if its class does not exist. Allocation
// reports that.
//
//	check.go      entry point: one object, a list of field errors
//	name.go       the formats of names
//	claim.go      requests, constraints and configuration of a claim
//	request.go    one request or subrequest
//	selector.go   CEL expressions: length, compilation, cost
//	programs.go   the compiler for expressions
//	config.go     configuration for drivers
//	status.go     allocation and consumers of a claim
//	slice.go      a ResourceSlice and its shared counters
//	nodeselector.go  which nodes a slice or a device is for
//	device.go     one device of a slice
//	binding.go    binding conditions, and skipped calls on the node
//	attribute.go  attribute values
//	capacity.go   capacities, and requests for them
//	policy.go     request policies
//	taint.go      taints and tolerations
package validation
