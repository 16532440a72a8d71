// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// outage is how long the API server or etcd is away in the specs about that: OUTAGE, or 20
// seconds.
func outage() time.Duration {
	text := os.Getenv("OUTAGE")
	if text == "" {
		return 20 * time.Second
	}
	length, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred(), "OUTAGE is a duration")
	return length
}

// last waits for as long as an outage is to last. It is what happens, not what is waited for.
func last(ctx context.Context) {
	GinkgoHelper()
	select {
	case <-time.After(outage()):
	case <-ctx.Done():
		Fail(context.Cause(ctx).Error())
	}
}

// Each outage begins when the scheduler has decided and its request is on its way.
var _ = Describe("Outages", func() {
	DescribeTable("of an API server that stops answering lose no device and no pod", func(ctx SpecContext, stage faults.Fault) {
		for _, node := range []string{"a", "b", "c", "d"} {
			here.addNode(ctx, node, inventory.GPUs(8, "a100", "80Gi")...)
		}
		here.addTemplate(ctx, "gpus", here.gpus(1))
		hold := proxy.Hold(stage)
		defer hold.Release()
		pods := here.addPods(ctx, "before", 24, withTemplate("gpus"))
		Eventually(ctx, hold.Arrived()).Should(BeClosed(), "no request was held")
		DeferCleanup(func(ctx SpecContext) { Expect(plane.ContinueAPIServer(ctx)).To(Succeed()) })
		Expect(plane.PauseAPIServer()).To(Succeed())
		hold.Release()
		last(ctx)
		Expect(plane.ContinueAPIServer(ctx)).To(Succeed())
		pods = append(pods, here.addPods(ctx, "after", 8, withTemplate("gpus"))...)
		here.expectRunning(ctx, pods...)
	},
		Entry("while claims are allocated", toStatus),
	)

	It("of an etcd that is killed lose no device and no pod", func(ctx SpecContext) {
		for _, node := range []string{"a", "b", "c", "d"} {
			here.addNode(ctx, node, inventory.GPUs(8, "a100", "80Gi")...)
		}
		here.addTemplate(ctx, "gpus", here.gpus(1))
		hold := proxy.Hold(toStatus)
		defer hold.Release()
		pods := here.addPods(ctx, "before", 24, withTemplate("gpus"))
		Eventually(ctx, hold.Arrived()).Should(BeClosed(), "no request was held")
		DeferCleanup(func(ctx SpecContext) {
			if CurrentSpecReport().Failed() {
				_ = plane.StartEtcd(ctx) // for the specs that follow; it may run
			}
		})
		Expect(plane.KillEtcd()).To(Succeed())
		hold.Release()
		last(ctx)
		Expect(plane.StartEtcd(ctx)).To(Succeed())
		here.addPodsAgain(ctx, "after", 8, withTemplate("gpus"))
		Eventually(ctx, here.running).WithTimeout(crowdPatience).Should(HaveLen(len(pods) + 8))
	})
})

// addPodsAgain adds pods while the API server is settling: until each is there.
func (a *arena) addPodsAgain(ctx context.Context, prefix string, count int, edits ...podEdit) {
	GinkgoHelper()
	for i := range count {
		pod := inventory.Pod(nth(prefix, i))
		for _, edit := range edits {
			edit(pod)
		}
		Eventually(ctx, func() error {
			_, err := client.CoreV1().Pods(a.namespace).Create(ctx, pod, metav1.CreateOptions{})
			if statusOf(err) == http.StatusConflict { // it was made, and the answer was lost
				return nil
			}
			return err
		}).Should(Succeed())
	}
}
