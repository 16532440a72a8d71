// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wake has the queueing hints: which events may make a rejected pod schedulable.
// docs/operations.md has the table.
//
// # Where to look
//
//	hints.go   Hints: pods, nodes and slices
//	claims.go  claims, which are most of the events
//	slices.go  whether each device belongs to one node, and generations of pools
package wake
