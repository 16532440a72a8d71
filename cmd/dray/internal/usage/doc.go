// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage counts devices of a cluster: which are held, which are free, and which are free but cannot be used.
//
//	Of       counts by namespace, workload, node, class, driver or an attribute
//	Inspect  says of each device which of these it is, and why
//
// A Cluster is asked and not changed. Like a Cluster, nothing here is safe for concurrent use.
//
//	usage.go      reports
//	device.go     the state of one device, and what strands it
//	alignment.go  what claims and templates ask to be together
package usage
