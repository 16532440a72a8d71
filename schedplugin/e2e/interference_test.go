// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// Here the scheduler has decided, and its request to the API server is held back while
// something happens that it did not know of.
var _ = Describe("Between the decision and its record", func() {
	It("a claim can be deleted and made anew", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, toFinalizers, func() { here.addPod(ctx, "pod", withClaim("gpus")) }, func() {
			Expect(client.ResourceV1().ResourceClaims(here.namespace).Delete(ctx, "gpus", metav1.DeleteOptions{})).To(Succeed())
			here.addClaim(ctx, "gpus", here.gpus(2))
		})
		here.expectRunning(ctx, "pod")
		Expect(here.devicesOf(ctx, "gpus")).To(HaveLen(2))
	})

	It("a claim can be deallocated", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "first", withClaim("gpus"))
		here.expectRunning(ctx, "first")
		here.meanwhile(ctx, toStatus, func() { here.addPod(ctx, "second", withClaim("gpus")) }, func() {
			here.deletePod(ctx, "first")
			Eventually(ctx, here.holders).Should(BeEmpty())
		})
		here.expectRunning(ctx, "second")
		Expect(here.claim(ctx, "gpus").Status.ReservedFor).To(HaveLen(1))
	})

	It("a claim can be reserved for another pod", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "first", withClaim("gpus"))
		here.expectRunning(ctx, "first")
		here.meanwhile(ctx, toStatus, func() { here.addPod(ctx, "second", withClaim("gpus")) }, func() {
			here.addPod(ctx, "third", withClaim("gpus"))
			here.expectRunning(ctx, "third")
		})
		here.expectRunning(ctx, "second")
		Expect(here.claim(ctx, "gpus").Status.ReservedFor).To(HaveLen(3))
	})

	It("a claim can be allocated by somebody else", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		node := here.addNode(ctx, "b", inventory.GPUs(2, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, toFinalizers, func() { here.addPod(ctx, "pod", withClaim("gpus")) }, func() {
			here.allocate(ctx, "gpus", node, "gpu-1")
		})
		here.expectRunning(ctx, "pod")
		Expect(here.devicesOf(ctx, "gpus")).To(Equal([]string{"gpu: b/gpu-1"}))
		Expect(here.nodeOf(ctx, "pod")).To(Equal(node))
	})

	It("the pod can be deleted", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, toFinalizers, func() { here.addPod(ctx, "pod", withTemplate("gpus")) }, func() {
			here.addPod(ctx, "next", withTemplate("gpus"))
			here.expectUnschedulable(ctx, "next")
			here.deletePod(ctx, "pod")
		})
		here.expectRunning(ctx, "next")
	})

	It("devices can disappear and appear", func(ctx SpecContext) {
		node := here.addNode(ctx, "a")
		slice := inventory.Slice(here.driver, node, inventory.GPUs(1, "a100", "80Gi")...)
		here.addSlices(ctx, slice)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, toFinalizers, func() { here.addPod(ctx, "first", withTemplate("gpus")) }, func() {
			latest, err := client.ResourceV1().ResourceSlices().Get(ctx, slice.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			latest.Spec.Pool.Generation++
			latest.Spec.Devices = []resourceapi.Device{inventory.GPU("other", "a100", 0, "80Gi")}
			_, err = client.ResourceV1().ResourceSlices().Update(ctx, latest, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			here.addPod(ctx, "second", withTemplate("gpus"))
			here.expectRunning(ctx, "second")
		})
		here.expectRunning(ctx, "first")
		Expect(here.devicesOf(ctx, here.claimOf(ctx, "second"))).To(Equal([]string{"gpu: a/other"}))
	})

	DescribeTable("the scheduler can die", func(ctx SpecContext, stage faults.Fault) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		hold := proxy.Hold(stage)
		here.addPod(ctx, "pod", withTemplate("gpus"))
		Eventually(ctx, hold.Arrived()).Should(BeClosed(), "no request was held")
		Expect(plane.KillScheduler()).To(Succeed())
		Expect(plane.StartScheduler(ctx)).To(Succeed())
		here.expectRunning(ctx, "pod")
	},
		Entry("before it adds the finalizer", toFinalizers),
		Entry("before it allocates the claim", toStatus),
		Entry("before it binds the pod", toBindings),
	)
})

// meanwhile begins something that makes the scheduler send a request, holds that back, does
// something else, and lets the request pass.
func (a *arena) meanwhile(ctx context.Context, request faults.Fault, begin, interfere func()) {
	GinkgoHelper()
	hold := proxy.Hold(request)
	defer hold.Release()
	begin()
	Eventually(ctx, hold.Arrived()).Should(BeClosed(), "no request was held")
	interfere()
}

// allocate gives a device to a claim, as another scheduler would.
func (a *arena) allocate(ctx context.Context, name, node, device string) {
	GinkgoHelper()
	claims := client.ResourceV1().ResourceClaims(a.namespace)
	claim := a.claim(ctx, name)
	claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	claim.Status.Allocation = allocation(a.driver, node, device)
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// allocation is one device of a node's pool, for the request gpu.
func allocation(driver, node, device string) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: driver, Pool: node, Device: device},
		}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
}
