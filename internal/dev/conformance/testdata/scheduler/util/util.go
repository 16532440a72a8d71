// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package util stands in for upstream's package of this name in integration tests: the
// schedulers that it starts have Dray's plugin instead of the in-tree one, if the environment
// says so.
package util

import (
	"os"
	"slices"

	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/dray/args"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/test/integration/util"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/dray-project/dray/schedplugin"
)

// What has nothing to do with the plugin is upstream's.
var (
	CreateGCController            = util.CreateGCController
	CreateNamespaceController     = util.CreateNamespaceController
	CreateResourceClaimController = util.CreateResourceClaimController
	StartFakePVController         = util.StartFakePVController
)

// StartScheduler starts a scheduler with one of the two plugins.
func StartScheduler(tCtx ktesting.TContext, cfg *config.KubeSchedulerConfiguration, registry frameworkruntime.Registry) (*scheduler.Scheduler, informers.SharedInformerFactory) {
	tCtx.Helper()
	sched, factory, _ := StartSchedulerWithDone(tCtx, cfg, registry)
	return sched, factory
}

// StartSchedulerWithDone does so, too, and returns a channel that is closed at the end.
func StartSchedulerWithDone(tCtx ktesting.TContext, cfg *config.KubeSchedulerConfiguration, registry frameworkruntime.Registry) (*scheduler.Scheduler, informers.SharedInformerFactory, <-chan struct{}) {
	tCtx.Helper()
	if os.Getenv("CONFORMANCE_WITH_DRAY") != "" {
		for i := range cfg.Profiles {
			if err := swap(&cfg.Profiles[i]); err != nil {
				tCtx.Fatal(err)
			}
		}
		if registry == nil {
			registry = frameworkruntime.Registry{}
		}
		if err := registry.Register(schedplugin.Name, schedplugin.New); err != nil {
			tCtx.Fatal(err)
		}
	}
	return util.StartSchedulerWithDone(tCtx, cfg, registry)
}

// swap has a profile use Dray where it uses the in-tree plugin, with the same timeouts.
func swap(profile *config.KubeSchedulerProfile) error {
	multi := profile.Plugins.MultiPoint.Enabled
	i := slices.IndexFunc(multi, func(p config.Plugin) bool { return p.Name == names.DynamicResources })
	if i < 0 {
		return nil // device allocation is off
	}
	multi[i].Name = schedplugin.Name
	for i, c := range profile.PluginConfig {
		inTree, ok := c.Args.(*config.DynamicResourcesArgs)
		if !ok {
			continue
		}
		unknown, err := args.Of(inTree)
		if err != nil {
			return err
		}
		profile.PluginConfig[i] = config.PluginConfig{Name: schedplugin.Name, Args: unknown}
	}
	return nil
}
