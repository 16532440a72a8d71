// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lineage finds the snapshot for a list of slices again. fingerprint.go identifies a list, lineage.go
// follows one cluster from list to list, and index.go keeps a few clusters.
package lineage
