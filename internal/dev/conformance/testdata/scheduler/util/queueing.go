// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package util

import (
	"os"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/test/integration/util"

	"github.com/dray-project/dray/schedplugin"
)

// TestContext is upstream's, and so is what has nothing to do with the plugin.
type TestContext = util.TestContext

var (
	CleanupTest                  = util.CleanupTest
	CreatePV                     = util.CreatePV
	CreatePVC                    = util.CreatePVC
	InitTestAPIServer            = util.InitTestAPIServer
	InitTestSchedulerWithNS      = util.InitTestSchedulerWithNS
	NextEntityOrDie              = util.NextEntityOrDie
	PodDeleted                   = util.PodDeleted
	PodScheduled                 = util.PodScheduled
	PodUnschedulable             = util.PodUnschedulable
	SyncSchedulerInformerFactory = util.SyncSchedulerInformerFactory
)

// UnderTest is the plugin that a profile enables where a case names the in-tree one.
func UnderTest(plugin string) string {
	if plugin == names.DynamicResources && os.Getenv("CONFORMANCE_WITH_DRAY") != "" {
		return schedplugin.Name
	}
	return plugin
}

// InitTestSchedulerWithOptions makes a scheduler that knows both plugins.
func InitTestSchedulerWithOptions(t *testing.T, testCtx *TestContext, resyncPeriod time.Duration, opts ...scheduler.Option) *TestContext {
	t.Helper()
	opts = append(opts, scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{schedplugin.Name: schedplugin.New}))
	return util.InitTestSchedulerWithOptions(t, testCtx, resyncPeriod, opts...)
}
