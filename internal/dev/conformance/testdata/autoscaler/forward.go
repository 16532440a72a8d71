// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot has those names of cluster-autoscaler's package that its tests use, and Dray's
// package behind them.
package snapshot

import "github.com/dray-project/dray/schedplugin/autoscaler"

// The types of Dray's package.
type (
	ResourceClaimId = autoscaler.ResourceClaimId
	Snapshot        = autoscaler.Snapshot
)

var (
	CloneTestSnapshot         = autoscaler.CloneTestSnapshot
	GetClaimId                = autoscaler.GetClaimId
	NewSnapshot               = autoscaler.NewSnapshot
	SnapshotFlattenedComparer = autoscaler.SnapshotFlattenedComparer
)
