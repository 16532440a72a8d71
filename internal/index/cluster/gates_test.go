// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/dray-project/dray/internal/index/pool"

var everything = pool.Gates{PartitionableDevices: true, CompatibilityGroups: true, ConsumableCapacity: true}
