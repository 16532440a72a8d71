// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/dray-project/dray/schedplugin"
)

// plugins are those that profiles can enable besides the ones in the tree.
var plugins = []app.Option{app.WithPlugin(schedplugin.Name, schedplugin.New)}
