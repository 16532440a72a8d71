// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis finds out what stands behind the figures of an allocator's explanation:
// who holds the devices that are in use, which values devices have where a selector
// rejects them, which DeviceTaintRule a taint is from, and which name was misspelt.
//
//	Placement + Cluster ──New, At──► Diagnosis ──Request, Constraint──► details of a node
//	                                                                        │ Add
//	                                                                        ▼
//	                                                              details of several nodes
//	error of a selector ──────Error──────────────────────────────► the same, with what there is
//
//	diagnosis.go   requests and their rejections
//	detail.go      sentences that can be added up over nodes
//	selector.go    which part of a selector rejects, and the values that devices have
//	names.go       attributes, capacities and domains that nothing has
//	errors.go      errors of selectors, and of claims made from templates
//	supply.go      holders, counters, capacities and taints
//	environment.go slices and drivers
package diagnosis
