// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scoring computes the scores of a node: how many of its devices are in use or can no longer
// be allocated, and which alternatives of prioritized lists it serves.
package scoring
