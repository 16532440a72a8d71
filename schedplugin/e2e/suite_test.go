// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/invariant"
	"github.com/dray-project/dray/schedplugin/internal/dev/nodesim"
)

// binaries is where `make controlplane` puts them.
const binaries = "../../bin"

// Patience with machines that have other things to do. A spec that passes waits for none
// of it.
const (
	patience = 2 * time.Minute
	interval = 25 * time.Millisecond
	// crowdPatience is for hundreds of pods.
	crowdPatience = 10 * time.Minute
	// calm is how long something must not happen that could happen at once.
	calm = 500 * time.Millisecond
)

var (
	scheduler = controlplane.Dray
	plane     *controlplane.ControlPlane
	client    kubernetes.Interface
	watcher   *invariant.Watcher
)

func TestE2E(t *testing.T) {
	if chosen := os.Getenv("SCHEDULER"); chosen != "" {
		if err := scheduler.Set(chosen); err != nil {
			t.Fatal(err)
		}
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(interval)
	SetDefaultConsistentlyDuration(calm)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Scheduling with claims by "+string(scheduler))
}

var _ = BeforeSuite(func(ctx SpecContext) {
	programs, err := controlplane.BinariesIn(binaries)
	Expect(err).NotTo(HaveOccurred(), "run make controlplane first")
	plane, err = controlplane.Start(ctx, controlplane.Options{
		Binaries: programs, Scheduler: scheduler, SchedulerVerbosity: 2, SchedulerServer: throughProxy,
		// The API server keeps topology constraints and composite groups. Schedulers heed them in the specs about them.
		Features: placements(true), SchedulerFeatures: placements(false),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(plane.Stop()).To(Succeed())
		Expect(proxy.Close()).To(Succeed())
	})
	client, err = kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	watcher, err = invariant.Watch(running, client)
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer GinkgoRecover()
		Expect(nodesim.Run(running, client)).To(Succeed())
	}()
})

// placements are the feature gates of topology constraints and of composite groups.
func placements(on bool) map[string]bool {
	return map[string]bool{"TopologyAwareWorkloadScheduling": on, "CompositePodGroup": on}
}

// Logs stay when something went wrong.
var _ = ReportAfterSuite("logs of the control plane", func(report Report) {
	if !report.SuiteSucceeded && plane != nil {
		AddReportEntry("logs", plane.Folder())
	}
})
