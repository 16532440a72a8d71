// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Preemption", func() {
	It("for CPUs frees the devices of its victims", func(ctx SpecContext) {
		node := here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "victim", withTemplate("gpus"), withCPUs(cpus-1), withPriority(low))
		here.expectRunning(ctx, "victim")
		here.addPod(ctx, "urgent", withTemplate("gpus"), withCPUs(cpus-1), withPriority(high), onNode(node))
		here.expectRunning(ctx, "urgent")
		here.expectGone(ctx, "victim")
		here.addPod(ctx, "next", withTemplate("gpus"), withPriority(low))
		here.expectRunning(ctx, "next")
	})

	if scheduler == controlplane.InTree {
		return
	}

	It("for devices evicts as few pods as it takes", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(4, "a100", "80Gi")...)
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000)
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addTemplate(ctx, "two", here.gpus(2))
		pods := here.addPods(ctx, "low", 4, withTemplate("one"), withPriority(low))
		here.expectRunning(ctx, pods...)
		here.addPod(ctx, "urgent", withTemplate("two"), withPriority(high))
		here.expectRunning(ctx, "urgent")
		Expect(here.runningOf(ctx, pods)).To(HaveLen(2))
	})

	It("of all pods on a node leaves other nodes alone", func(ctx SpecContext) {
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000)
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addTemplate(ctx, "three", here.gpus(3))
		var pods []string
		for _, suffix := range []string{"a", "b"} {
			node := here.addNode(ctx, suffix, inventory.GPUs(3, "a100", "80Gi")...)
			pods = append(pods, here.addPods(ctx, suffix, 3, withTemplate("one"), withPriority(low), onNode(node))...)
		}
		here.expectRunning(ctx, pods...)
		here.addPod(ctx, "urgent", withTemplate("three"), withPriority(high))
		here.expectRunning(ctx, "urgent")
		Expect(here.runningOf(ctx, pods)).To(HaveLen(3))
	})

	It("for devices is not for pods that never preempt, or among equals", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000, corev1.PreemptNever)
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addPod(ctx, "first", withTemplate("one"), withPriority(low))
		here.expectRunning(ctx, "first")
		here.addPod(ctx, "equal", withTemplate("one"), withPriority(low))
		here.addPod(ctx, "polite", withTemplate("one"), withPriority(high))
		here.expectUnschedulable(ctx, "equal", "polite")
		Consistently(ctx, here.standing).WithArguments("first").Should(Equal(running))
	})

	It("of a pod whose devices are not ready yet gives them to the other one", func(ctx SpecContext) {
		gpu := inventory.GPU("gpu-0", "a100", 0, "80Gi")
		gpu.BindingConditions, gpu.BindingFailureConditions = []string{"example.com/attached"}, []string{"example.com/broken"}
		here.addNode(ctx, "a", gpu)
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000)
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "waiting", withTemplate("one"), withPriority(low))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		here.addPod(ctx, "urgent", withClaim("gpus"), withPriority(high))
		Eventually(ctx, here.holders).Should(Equal([]string{"gpus"}))
		here.report(ctx, "example.com/attached")
		here.expectRunning(ctx, "urgent")
		here.expectUnschedulable(ctx, "waiting")
	})

	It("of a pod whose claim was written without an answer takes place when that is known", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000)
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addClaim(ctx, "gpus", here.gpus(1))
		unanswered := toStatus
		unanswered.Status, unanswered.Times = lost, 1
		proxy.Inject(unanswered)
		proxy.Inject(faults.Fault{Methods: []string{http.MethodGet}, Path: toFinalizers.Path, Status: http.StatusServiceUnavailable, Times: 1000})
		here.addPod(ctx, "waiting", withTemplate("one"), withPriority(low))
		Eventually(ctx, here.holders).Should(HaveLen(1))
		here.addPod(ctx, "urgent", withClaim("gpus"), withPriority(high))
		Eventually(ctx, func(g Gomega) {
			urgent, err := client.CoreV1().Pods(here.namespace).Get(ctx, "urgent", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(urgent.Status.NominatedNodeName).NotTo(BeEmpty())
		}).Should(Succeed())
		Eventually(ctx, proxy.Spoilt).Should(BeNumerically(">", 1), "the claim was not read again")
		proxy.Heal()
		here.expectRunning(ctx, "urgent")
	})

	DescribeTable("of a pod that is just being bound takes place when it is", func(ctx SpecContext, own func(context.Context) podEdit) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		low, high := here.addPriority(ctx, "low", 100), here.addPriority(ctx, "high", 1000)
		here.addClaim(ctx, "gpus", here.gpus(1))
		edit := own(ctx)
		here.meanwhile(ctx, toStatus, func() { here.addPod(ctx, "victim", edit, withPriority(low)) }, func() {
			here.addPod(ctx, "urgent", withClaim("gpus"), withPriority(high))
			here.expectUnschedulable(ctx, "urgent")
		})
		here.expectRunning(ctx, "urgent")
	},
		Entry("with a claim that it names", func(ctx context.Context) podEdit {
			here.addClaim(ctx, "own", here.gpus(1))
			return withClaim("own")
		}),
		Entry("with an extended resource", func(ctx context.Context) podEdit { return requesting(here.addExtendedResource(ctx), 1) }),
	)
})
