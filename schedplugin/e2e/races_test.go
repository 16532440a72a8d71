// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written

	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// longestLife is the time that a scheduler has at most between its start and its death.
const longestLife = 300 * time.Millisecond

// stages are requests between Reserve and Bind at which the scheduler dies. At the first,
// which is none, it dies at any time.
var stages = []faults.Fault{
	{},
	toFinalizers,
	toStatus,
	toBindings,
}

var _ = Describe("Races", func() {
	It("of two pods for one device have one winner", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		var both sync.WaitGroup
		for _, name := range []string{"one", "two"} {
			both.Go(func() {
				defer GinkgoRecover()
				here.addPod(ctx, name, withTemplate("gpus"))
			})
		}
		both.Wait()
		winner, losers := here.expectOneRunning(ctx, "one", "two")
		here.deletePod(ctx, winner)
		here.expectRunning(ctx, losers...)
	})

	It("with the death of the scheduler lose no device and no pod", func(ctx SpecContext) {
		const nodes, gpus = 4, 4
		for i := range nodes {
			here.addNode(ctx, fmt.Sprintf("n%d", i), inventory.GPUs(gpus, "a100", "80Gi")...)
		}
		here.addTemplate(ctx, "gpus", here.gpus(1))
		for round := range number("KILLS", 5) {
			stage := stages[round%len(stages)]
			var hold *faults.Hold
			if stage.Path != nil {
				hold = proxy.Hold(stage)
			}
			pods := here.addPods(ctx, fmt.Sprintf("round-%d", round), nodes*gpus, withTemplate("gpus"))
			if hold != nil {
				Eventually(ctx, hold.Arrived()).Should(BeClosed(), "no request was held")
			}
			time.Sleep(rand.N(longestLife))
			Expect(plane.KillScheduler()).To(Succeed())
			proxy.Heal()
			Expect(plane.StartScheduler(ctx)).To(Succeed())
			here.expectRunning(ctx, pods...)
			Expect(watcher.Violations()).To(BeEmpty())
			here.deletePods(ctx)
			if round%2 == 0 { // otherwise the next pods meet devices that are about to come free
				Eventually(ctx, here.holders).Should(BeEmpty())
			}
		}
	})

	It("with a scheduler that is not there are settled when it comes back", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "first", withTemplate("gpus"))
		here.expectRunning(ctx, "first")
		Expect(plane.StopScheduler()).To(Succeed())
		pods := here.addPods(ctx, "late", 3, withTemplate("gpus"))
		here.deletePod(ctx, "first")
		Expect(plane.StartScheduler(ctx)).To(Succeed())
		winner, losers := here.expectOneRunning(ctx, pods...)
		here.deletePod(ctx, winner)
		here.expectOneRunning(ctx, losers...)
	})
})

// addPods adds some that are alike, and returns their names.
func (a *arena) addPods(ctx context.Context, prefix string, count int, edits ...podEdit) []string {
	GinkgoHelper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		a.addPod(ctx, names[i], edits...)
	}
	return names
}
