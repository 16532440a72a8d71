// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential asks two allocators the same generated questions and compares
// the answers. The peer is the norm; documented decisions excuse a difference, which
// is then counted under the number of the decision.
//
//	clustergen.Generate ──► ours ──► oracle.Verify, inputs untouched
//	                   └──► peer ──► same class of outcome, oracle.Equal
//
// Sequences ask about one cluster that changes: what one turn allocates is in use in the
// next. Our allocators keep what they know from turn to turn, the peer starts anew.
//
//	clustergen.Sequence ──► turn ──► ours, kept ──► as above
//	          ▲               └────► peer ──► allocated ─┐
//	          └──────────────────────────────────────────┘
//
// A case on which the answers disagree is reduced to a local minimum and written as a
// scenario file. Command differential (folder cmd) runs it.
package differential
