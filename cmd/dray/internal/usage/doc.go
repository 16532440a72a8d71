// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage counts devices of a cluster: which are held, which are free, and which are free but cannot be used.
//
//	Of       counts by namespace, workload, node, class, driver or an attribute
//	Inspect  returns the state of each device, and its cause
//
// The functions do not change the Cluster. They are not safe for concurrent use.
//
//	usage.go      reports
//	device.go     the state of one device, and what strands it
//	alignment.go  requests for several devices that agree
package usage
