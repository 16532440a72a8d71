// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lineage finds the snapshot for a list of slices again: fingerprint.go recognises a
// list, lineage.go follows a cluster from list to list, index.go has a few clusters and forgets them.
package lineage
