// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pools turns ResourceSlices into an index that allocation reads,
// and keeps what allocated claims hold.
//
//	ResourceSlices ──► Builder ──► Snapshot ──► GatherPools(node) ──► PoolView
//	                                  │
//	                                  ▼
//	allocated ResourceClaims ──► State ◄──► Ledger
//	                             │  ▲          │ ▲
//	              Assume, Forget └──┘   Branch ▼ │ Commit
//	                                           Ledger
//
// A Snapshot says what there is: pools with their devices, counters and the nodes
// they reach. It is immutable. A Builder follows a changing cluster: a changed
// slice makes one new Pool, all other Pools are the same in the next Snapshot.
//
// A State is a Snapshot and what is in use of it. It is immutable as well, and what an
// allocator is asked about: the two belong together and cannot be torn apart by a change
// between reading one and the other. What-ifs cost what they change: Assume, Forget and
// Rebase return another State.
//
// A Ledger is a pointer to a State that moves, for those who follow a cluster from several
// goroutines.
//
// # Rules
//
// Only slices of a pool's highest generation count, and a newer generation
// anywhere makes older slices obsolete on all nodes. A pool is complete if that
// generation has as many slices, wherever they reach, as their resourceSliceCount
// says. Devices of incomplete and invalid pools stay listed in Pool but not in a
// view.
//
// An allocation names a device by driver, pool and device name. If slices for
// different nodes repeat a name, one allocation has all devices of that name in
// use, and each is charged to the counters.
//
// API objects that are handed in are kept by pointer, never modified, and must not
// be modified by others. Everything except Builder is safe for concurrent use. States,
// Ledgers, Builders and Indexes are made by functions: their zero values are of no use.
//
// # Where things are
//
// This package is what users see. The index itself is in rooms of internal/index, where the
// allocator reads it without going through methods:
//
//	shape     what selectors and constraints see of a device; attribute values
//	pool      slices → Pool: generation, completeness, devices, counters, the nodes it
//	          reaches; what is in use of it
//	cluster   Builder, Snapshot and State; what a node reaches
//	lineage   Index: finding the snapshot for a list of slices again
//	persist   arrays and maps of which a changed copy shares what did not change
package pools
