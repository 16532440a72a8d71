// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster indexes the pools of a cluster, what nodes reach of them, and what allocated claims hold.
//
//	builder.go   follows the slices of a cluster; slots of pools
//	snapshot.go  the index of pools, and from a node's name to pools
//	place.go     what a node reaches
//	tally.go     numbers of states, cached for a list of nodes
//	state.go     a snapshot and its usage, which is stored or read on demand
//	holding.go   from claims' allocations to what is held of a device
package cluster
