// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Claims", func() {
	It("are allocated when a pod names them", func(ctx SpecContext) {
		node := here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectRunning(ctx, "pod")
		Expect(here.nodeOf(ctx, "pod")).To(Equal(node))
		Expect(here.devicesOf(ctx, "gpus")).To(Equal([]string{"gpu: a/gpu-0"}))
		Expect(here.claim(ctx, "gpus").Status.ReservedFor).To(HaveLen(1))
	})

	It("are made for each pod from a template, and go with it", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "one", withTemplate("gpus"))
		here.addPod(ctx, "two", withTemplate("gpus"))
		here.expectRunning(ctx, "one", "two")
		here.addPod(ctx, "three", withTemplate("gpus"))
		here.expectUnschedulable(ctx, "three")
		here.deletePod(ctx, "one")
		here.expectRunning(ctx, "three")
	})

	It("are shared by the pods that name them", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		for _, name := range []string{"one", "two", "three"} {
			here.addPod(ctx, name, withClaim("gpus"))
		}
		here.expectRunning(ctx, "one", "two", "three")
		Expect(here.nodeOf(ctx, "two")).To(Equal(here.nodeOf(ctx, "one")))
		Expect(here.nodeOf(ctx, "three")).To(Equal(here.nodeOf(ctx, "one")))
		Expect(here.claim(ctx, "gpus").Status.ReservedFor).To(HaveLen(3))
	})

	It("hold a pod back until they exist", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addPod(ctx, "pod", withClaim("late"))
		Consistently(ctx, here.standing).WithArguments("pod").Should(Equal("Pending"))
		here.addClaim(ctx, "late", here.gpus(1))
		here.expectRunning(ctx, "pod")
	})

	It("can be deleted and made anew while a pod waits for devices", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(2))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectUnschedulable(ctx, "pod")
		Expect(client.ResourceV1().ResourceClaims(here.namespace).Delete(ctx, "gpus", metav1.DeleteOptions{})).To(Succeed())
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.expectRunning(ctx, "pod")
		Expect(here.devicesOf(ctx, "gpus")).To(Equal([]string{"gpu: a/gpu-0"}))
	})

	It("of one pod are allocated together on one node", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		node := here.addNode(ctx, "b", inventory.GPUs(3, "a100", "80Gi")...)
		here.addClaim(ctx, "one", here.gpus(1))
		here.addClaim(ctx, "two", here.gpus(2))
		here.addPod(ctx, "pod", withClaim("one"), withClaim("two"))
		here.expectRunning(ctx, "pod")
		Expect(here.nodeOf(ctx, "pod")).To(Equal(node))
	})
})
