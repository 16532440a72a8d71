// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster has the pools of a cluster, what nodes reach of them, and what allocated
// claims hold.
//
//	builder.go   following a cluster; slots of pools
//	snapshot.go  the index of pools, from a node to pools
//	place.go     what a node reaches, and what its name decides of that
//	tally.go     numbers of states, kept with a list of nodes
//	state.go     a snapshot and what is in use of it, known or found out as pools are looked at
//	holding.go   from claims' allocations to what is held of a device
package cluster
