// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/dray-project/dray/schedplugin"
)

// contestant is a scheduler that is measured.
type contestant struct {
	name string
	// config is the path of its configuration. Empty: the default one, with the plugin of
	// the tree.
	config   string
	registry frameworkruntime.Registry
}

// Names of contestants, as results have them.
const (
	nameInTree = "in-tree"
	nameDray   = "dray"
	nameFloor  = "floor"
)

var contestants = []contestant{
	{name: nameInTree},
	{name: nameDray, config: "../../../deploy/chart/base/scheduler-config.yaml", registry: frameworkruntime.Registry{schedplugin.Name: schedplugin.New}},
	{name: nameFloor, config: "config/floor.yaml", registry: frameworkruntime.Registry{FloorName: NewFloor}},
}
