// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/invariant"
)

// binaries is where `make controlplane` puts them.
const binaries = "../../bin"

// Patience with machines that have other things to do. A spec that passes waits for none
// of it.
const (
	patience = 2 * time.Minute
	interval = 25 * time.Millisecond
	// calm is how long something must not happen that could happen at once.
	calm = 300 * time.Millisecond
)

var (
	plane   *controlplane.ControlPlane
	client  kubernetes.Interface
	watcher *invariant.Watcher
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(interval)
	SetDefaultConsistentlyDuration(calm)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Virtual nodes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	programs, err := controlplane.BinariesIn(binaries)
	Expect(err).NotTo(HaveOccurred(), "run make agent controlplane first")
	plane, err = controlplane.Start(ctx, controlplane.Options{Binaries: programs, Scheduler: controlplane.Dray, SchedulerVerbosity: 2})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	client, err = kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	watching, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	watcher, err = invariant.Watch(watching, client)
	Expect(err).NotTo(HaveOccurred())
})

// Logs stay when something went wrong.
var _ = ReportAfterEach(func(report SpecReport) {
	if report.Failed() && plane != nil {
		plane.KeepFolder()
		AddReportEntry("logs", plane.Folder())
	}
})
