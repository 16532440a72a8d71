// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Devices with binding conditions", func() {
	const attached, broken = "example.com/attached", "example.com/broken"

	BeforeEach(func(ctx SpecContext) {
		gpu := inventory.GPU("gpu-0", "a100", 0, "80Gi")
		gpu.BindingConditions, gpu.BindingFailureConditions = []string{attached}, []string{broken}
		here.addNode(ctx, "a", gpu)
		here.addClaim(ctx, "gpus", here.gpus(1))
	})

	It("hold a pod back until they are met", func(ctx SpecContext) {
		here.addPod(ctx, "pod", withClaim("gpus"))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		// Its first attempt may have failed, before the scheduler knew the class.
		Consistently(ctx, here.nodeOf).WithArguments("pod").Should(BeEmpty())
		here.report(ctx, attached)
		here.expectRunning(ctx, "pod")
	})

	It("are allocated anew when they fail", func(ctx SpecContext) {
		here.addPod(ctx, "pod", withClaim("gpus"))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		here.report(ctx, broken)
		Eventually(ctx, func(g Gomega) {
			status := here.claim(ctx, "gpus").Status
			g.Expect(status.Devices).To(BeEmpty())
			g.Expect(status.Allocation).NotTo(BeNil())
		}).Should(Succeed())
		here.report(ctx, attached)
		here.expectRunning(ctx, "pod")
	})

	if scheduler == controlplane.InTree {
		return
	}

	It("are free at once when their pod is deleted", func(ctx SpecContext) {
		here.addPod(ctx, "pod", withClaim("gpus"))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		here.deletePod(ctx, "pod")
		Eventually(ctx, here.holders).Should(BeEmpty())
		here.addPod(ctx, "next", withClaim("gpus"))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		here.report(ctx, attached)
		here.expectRunning(ctx, "next")
	})

	It("are allocated anew when they take too long", func(ctx SpecContext) {
		withArguments(ctx, `{"bindingTimeout":"2s"}`)
		here.addPod(ctx, "pod", withClaim("gpus"))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		first := here.claim(ctx, "gpus").Status.Allocation.AllocationTimestamp
		Expect(first).NotTo(BeNil())
		Eventually(ctx, func(g Gomega) {
			allocation := here.claim(ctx, "gpus").Status.Allocation
			g.Expect(allocation).NotTo(BeNil())
			g.Expect(allocation.AllocationTimestamp.Time).To(BeTemporally(">", first.Time))
		}).Should(Succeed())
		Eventually(ctx, func(g Gomega) { // each attempt has 2s
			here.report(ctx, attached)
			g.Expect(here.standing(ctx, "pod")).To(Equal(running))
		}).Should(Succeed())
	})
})

// report sets a condition of the first device of the claim gpus, as its driver would.
func (a *arena) report(ctx context.Context, condition string) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		claim := a.claim(ctx, "gpus")
		if claim.Status.Allocation == nil {
			return nil
		}
		result := claim.Status.Allocation.Devices.Results[0]
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			Conditions: []metav1.Condition{{
				Type: condition, Status: metav1.ConditionTrue, Reason: "Reported", LastTransitionTime: metav1.Now(),
			}},
		}}
		_, err := client.ResourceV1().ResourceClaims(a.namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}

// withArguments restarts the scheduler with arguments for Dray, for this spec alone.
func withArguments(ctx context.Context, arguments string) {
	GinkgoHelper()
	restart := func(ctx context.Context, arguments string) {
		GinkgoHelper()
		Expect(plane.StopScheduler()).To(Succeed())
		plane.SetPluginArguments(arguments)
		Expect(plane.StartScheduler(ctx)).To(Succeed())
	}
	restart(ctx, arguments)
	DeferCleanup(func(ctx SpecContext) { restart(ctx, "") })
}
