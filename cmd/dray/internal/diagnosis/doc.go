// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis adds details to the figures of an allocator's explanation. They say who holds
// devices that are in use, which values rejected devices have, which DeviceTaintRule adds a taint,
// and which name is misspelt.
//
//	Placement + Cluster ──New, At──► Diagnosis ──Request, Constraint──► details of a node
//	                                                                        │ Add
//	                                                                        ▼
//	                                                              details of several nodes
//	error of a selector ──────Error──────────────────────────────► the same, with what there is
//
//	diagnosis.go   requests and their rejections
//	detail.go      sentences that can be aggregated over nodes
//	selector.go    which part of a selector rejects, and the values that devices have
//	names.go       attributes, capacities and domains that no device has
//	errors.go      errors of selectors, and of claims made from templates
//	supply.go      holders, counters, capacities and taints
//	environment.go slices and drivers
package diagnosis
