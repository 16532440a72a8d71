// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeutil has those names of virtual-kubelet's package that its tests use, and Dray's
// package behind them.
package nodeutil

import "github.com/dray-project/dray/agent/node/nodeutil"

// NodeConfig is that of Dray's package.
type NodeConfig = nodeutil.NodeConfig

var (
	FilterPodsForNodeName            = nodeutil.FilterPodsForNodeName
	WithPodControllerConfigOverrides = nodeutil.WithPodControllerConfigOverrides
)
