// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package structured is a drop-in replacement for the package of the same name in
// k8s.io/dynamic-resource-allocation v0.37. Its types are that package's own, so a program only changes the
// import path:
//
//	import "github.com/dray-project/dray/allocator/structured"
//
// Differences from upstream's allocator:
//
//   - The search prunes branches that cannot lead to a solution, with the same result. A
//     search that still exceeds its step budget ends with an error for the node
//     (ErrUndecided, which is an ErrFailedAllocationOnNode). The next allocator that is asked
//     for the same claims has four times as many steps, up to 64 times; NewAllocatorWith sets
//     both limits. The context bounds the time of a search, as upstream's.
//   - The CEL cache that is passed in is not used: expressions are compiled and their
//     results remembered in this process, for all allocators with the same features.
//   - Documented decisions, see docs/decisions.
package structured
