// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wake decides which events make a pod worth another attempt: all that may cure why it was
// rejected, and no others. docs/operations.md has the table.
//
// # Where to look
//
//	hints.go   Hints: pods, nodes and slices
//	claims.go  claims, which are most of the events
//	slices.go  whether each device belongs to one node, and generations of pools
package wake
