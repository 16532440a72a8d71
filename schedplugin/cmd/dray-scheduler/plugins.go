// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/dray-project/dray/schedplugin"
)

// plugins are the plugins that profiles can enable in addition to the in-tree ones.
var plugins = []app.Option{app.WithPlugin(schedplugin.Name, schedplugin.New)}
