// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Devices", func() {
	It("are partitioned as long as counters last", func(ctx SpecContext) {
		node := here.name("a")
		here.addBareNode(ctx, node)
		here.addSlices(ctx, inventory.Partitionable(here.driver, node, 1, "a100")...)
		for _, profile := range []string{"whole", "half", "quarter"} {
			here.addTemplate(ctx, profile, here.gpus(1, selecting(here.is("profile", profile))))
		}
		here.addPod(ctx, "half", withTemplate("half"))
		here.addPod(ctx, "quarter", withTemplate("quarter"))
		here.expectRunning(ctx, "half", "quarter")
		here.addPod(ctx, "other-half", withTemplate("half"))
		here.addPod(ctx, "whole", withTemplate("whole"))
		here.expectUnschedulable(ctx, "other-half", "whole")
		here.deletePod(ctx, "other-half")
		here.deletePod(ctx, "half")
		here.deletePod(ctx, "quarter")
		here.expectRunning(ctx, "whole")
	})

	It("share their capacity among claims until none is left", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.Shareable(inventory.GPU("gpu-0", "a100", 0, "80Gi")))
		here.addTemplate(ctx, "half", here.gpus(1, consuming("40Gi")))
		here.addPod(ctx, "one", withTemplate("half"))
		here.addPod(ctx, "two", withTemplate("half"))
		here.expectRunning(ctx, "one", "two")
		shares := append(here.resultsOf(ctx, here.claimOf(ctx, "one")), here.resultsOf(ctx, here.claimOf(ctx, "two"))...)
		Expect(shares).To(HaveEach(HaveField("Device", "gpu-0")))
		Expect(shares[0].ShareID).NotTo(Equal(shares[1].ShareID))
		here.addPod(ctx, "three", withTemplate("half"))
		here.expectUnschedulable(ctx, "three")
		here.deletePod(ctx, "one")
		here.expectRunning(ctx, "three")
	})

	It("with a taint are for those who tolerate it", func(ctx SpecContext) {
		worn := inventory.GPU("gpu-0", "a100", 0, "80Gi")
		worn.Taints = []resourceapi.DeviceTaint{{Key: "example.com/worn", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		here.addNode(ctx, "a", worn)
		here.addClaim(ctx, "picky", here.gpus(1))
		here.addPod(ctx, "picky", withClaim("picky"))
		here.expectUnschedulable(ctx, "picky")
		here.addClaim(ctx, "tolerant", here.gpus(1, tolerating("example.com/worn")))
		here.addPod(ctx, "tolerant", withClaim("tolerant"))
		here.expectRunning(ctx, "tolerant")
	})

	It("are tainted by a rule until it is deleted", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		rule := here.addRule(ctx, resourceapi.DeviceTaint{Key: "example.com/maintenance", Effect: resourceapi.DeviceTaintEffectNoSchedule})
		here.addClaim(ctx, "tolerant", here.gpus(1, tolerating("example.com/maintenance")))
		here.addPod(ctx, "tolerant", withClaim("tolerant"))
		here.expectRunning(ctx, "tolerant")
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectUnschedulable(ctx, "pod")
		Expect(client.ResourceV1().DeviceTaintRules().Delete(ctx, rule, metav1.DeleteOptions{})).To(Succeed())
		here.expectRunning(ctx, "pod")
	})

	It("with a taint that ends pods lose those that do not tolerate it", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addClaim(ctx, "tolerant", here.gpus(1, tolerating("example.com/broken"), func(request *resourceapi.ExactDeviceRequest) {
			// The controller that ends pods wants to see the effect.
			request.Tolerations[0].Effect = resourceapi.DeviceTaintEffectNoExecute
		}))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.addPod(ctx, "tolerant", withClaim("tolerant"))
		here.expectRunning(ctx, "pod", "tolerant")
		rule := here.addRule(ctx, resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute})
		here.expectGone(ctx, "pod")
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectUnschedulable(ctx, "pod")
		Consistently(ctx, here.standing).WithArguments("tolerant").Should(Equal(running))
		Expect(client.ResourceV1().DeviceTaintRules().Delete(ctx, rule, metav1.DeleteOptions{})).To(Succeed())
		here.expectRunning(ctx, "pod")
	})

	It("are allocated to a waiting pod when they are published", func(ctx SpecContext) {
		node := here.addNode(ctx, "a")
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectUnschedulable(ctx, "pod")
		here.addSlices(ctx, inventory.Slice(here.driver, node, inventory.GPUs(1, "a100", "80Gi")...))
		here.expectRunning(ctx, "pod")
	})
})
