// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node has the names of virtual-kubelet's package, and Dray's package behind them, so
// that virtual-kubelet's tests of the package compile.
package node

import "github.com/dray-project/dray/agent/node"

const (
	DefaultLeaseDuration         = node.DefaultLeaseDuration
	DefaultPingInterval          = node.DefaultPingInterval
	DefaultRenewIntervalFraction = node.DefaultRenewIntervalFraction
	DefaultStatusUpdateInterval  = node.DefaultStatusUpdateInterval
)

type (
	ErrorHandler        = node.ErrorHandler
	NaiveNodeProvider   = node.NaiveNodeProvider
	NaiveNodeProviderV2 = node.NaiveNodeProviderV2
	NodeController      = node.NodeController
	NodeControllerOpt   = node.NodeControllerOpt
	NodeProvider        = node.NodeProvider
	PodController       = node.PodController
	PodControllerConfig = node.PodControllerConfig
	PodEventFilterFunc  = node.PodEventFilterFunc
	PodLifecycleHandler = node.PodLifecycleHandler
	PodNotifier         = node.PodNotifier
	ShouldRetryFunc     = node.ShouldRetryFunc
)

var (
	ErrConflictingLeaseControllerConfiguration = node.ErrConflictingLeaseControllerConfiguration
	MaxRetries                                 = node.MaxRetries

	DefaultRetryFunc                       = node.DefaultRetryFunc
	NewNaiveNodeProvider                   = node.NewNaiveNodeProvider
	NewNodeController                      = node.NewNodeController
	NewPodController                       = node.NewPodController
	WithNodeEnableLeaseV1                  = node.WithNodeEnableLeaseV1
	WithNodeEnableLeaseV1WithRenewInterval = node.WithNodeEnableLeaseV1WithRenewInterval
	WithNodePingInterval                   = node.WithNodePingInterval
	WithNodePingTimeout                    = node.WithNodePingTimeout
	WithNodeStatusUpdateErrorHandler       = node.WithNodeStatusUpdateErrorHandler
	WithNodeStatusUpdateInterval           = node.WithNodeStatusUpdateInterval
)
