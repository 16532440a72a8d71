// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool makes one Pool of the slices of a resource pool, and says what nodes reach
// of it and what is in use of it.
//
//	ResourceSlice ──► Source ──► Assemble ──► Pool ──► View (of a node)
//	                                           └─────► Usage ──► Edit ──► Usage
//
//	pool.go     names and positions, gates, Pool, Slice, Device
//	assemble.go one slice as the builder keeps it; generation, completeness, devices
//	counters.go counter sets, what devices consume, compatibility groups, invalid pools
//	reach.go    node selection of slices and devices
//	routes.go   from a node to the slices that reach it
//	view.go     what a node reaches
//	usage.go    what is in use, and what sums it up
package pool
