// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// The command dray-scheduler is kube-scheduler with the plugin Dray, which profiles enable
// in place of DynamicResources. It has the same flags and configuration files. Its subcommand shadow
// compares the plugin's decisions with those of another scheduler.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the log format JSON
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of requests to the API server
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/dray-project/dray/internal/manual"
	"github.com/dray-project/dray/schedplugin/cmd/dray-scheduler/shadow"
)

func main() {
	command := app.NewSchedulerCommand(plugins...)
	command.Use = "dray-scheduler"
	command.AddCommand(shadow.Command(), manual.NewCommand())
	os.Exit(cli.Run(command))
}
