// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool makes a Pool of the slices of a resource pool. It says what nodes reach of the pool and what is
// in use of it.
//
//	ResourceSlice ──► Source ──► Assemble ──► Pool ──► View (of a node)
//	                                           └─────► Usage ──► Edit ──► Usage
//
//	pool.go     names and positions, gates, Pool, Slice, Device
//	assemble.go one slice in a builder; generation, completeness, devices
//	counters.go counter sets, what devices consume, compatibility groups, invalid pools
//	reach.go    node selection of slices and devices
//	routes.go   index from a node to the slices that reach it
//	view.go     what a node reaches
//	usage.go    what is in use, and what is left of counters
package pool
