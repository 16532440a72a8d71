// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peer wraps allocators as alloctest.Allocator, so that scenario files,
// differential runs and benchmarks ask all of them the same question.
package peer
