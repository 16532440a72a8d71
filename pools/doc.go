// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pools indexes ResourceSlices for allocation, and keeps what allocated claims hold.
//
//	ResourceSlices ──► Builder ──► Snapshot ──► GatherPools(node) ──► PoolView
//	                                  │
//	                                  ▼
//	allocated ResourceClaims ──► State ◄──► Ledger
//	                             │  ▲          │ ▲
//	              Assume, Forget └──┘   Branch ▼ │ Commit
//	                                           Ledger
//
// A Snapshot is the pools of a cluster, with their devices, counters and the nodes they reach. It is immutable.
// A Builder follows a changing cluster: a changed slice makes one new Pool, all other Pools are the same in the
// next Snapshot.
//
// A State is a Snapshot and what is in use of it. It is immutable as well, and the input of an allocator, so
// that both parts are always consistent. What-ifs cost what they change: Assume, Forget and Rebase return
// another State.
//
// A Ledger holds the current State, for programs that follow a cluster from several goroutines.
//
// # Rules
//
// Only slices of a pool's highest generation count: a newer generation anywhere makes older slices obsolete on
// all nodes. A pool is complete if that generation has as many slices, on whatever nodes, as their
// resourceSliceCount says. Devices of incomplete and invalid pools are listed in a Pool but not in a view.
//
// An allocation names a device by driver, pool and device name. If slices for different nodes repeat a name,
// one allocation has all devices of that name in use, and each is charged to the counters.
//
// API objects are kept by pointer and never modified. Callers must not modify them either. Everything except
// Builder is safe for concurrent use. States, Ledgers, Builders and Indexes are made by functions: their zero
// values are of no use.
//
// # Where things are
//
// This package is the public API. The index itself is in internal/index, where the allocator reads it directly:
//
//	shape     what selectors and constraints read of a device; attribute values
//	pool      slices → Pool: generation, completeness, devices, counters, the nodes it
//	          reaches; what is in use of it
//	cluster   Builder, Snapshot and State; what a node reaches
//	lineage   Index: finds the snapshot for a list of slices again
//	persist   arrays and maps whose versions share structure
package pools
