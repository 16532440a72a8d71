// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Operators of Dray", func() {
	if scheduler == controlplane.InTree {
		return
	}

	It("see reasons that add up", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(6, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(5, "a100", "80Gi")...)
		here.addNode(ctx, "c", inventory.GPUs(2, "a100", "80Gi")...)
		here.addNode(ctx, "d")
		here.addTemplate(ctx, "three", here.gpus(3))
		here.addTemplate(ctx, "four", here.gpus(4))
		pods := here.addPods(ctx, "user", 2, withTemplate("three"))
		here.expectRunning(ctx, pods...)
		here.addPod(ctx, "pod", withTemplate("four"))
		Eventually(ctx, here.refusal).WithArguments("pod").Should(And(
			HavePrefix("0/4 nodes are available: "),
			ContainSubstring("2 request gpu wants 4 devices: too few left (the others: in use)"),
			ContainSubstring("1 request gpu wants 4 devices: the node has fewer"),
			ContainSubstring("1 request gpu wants 4 devices: the node has none"),
		))
	})

	It("are told once why a pod gets no devices, and again when there is another reason", func(ctx SpecContext) {
		node := here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "two", here.gpus(2))
		here.addPod(ctx, "pod", withTemplate("two"))
		Eventually(ctx, here.explanations).WithArguments("pod").Should(ConsistOf(And(
			ContainSubstring("does not get its devices"), ContainSubstring("request gpu needs 2 devices"), ContainSubstring(node),
		)))
		before := attempts(ctx)
		// A driver that writes its slices is a reason to try again.
		published, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		Expect(err).NotTo(HaveOccurred())
		Expect(published.Items).NotTo(BeEmpty())
		label := []byte(`{"metadata":{"labels":{"example.com/changed":"true"}}}`)
		_, err = client.ResourceV1().ResourceSlices().Patch(ctx, published.Items[0].Name, types.MergePatchType, label, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() float64 { return attempts(ctx) }).ShouldNot(Equal(before), "the pod is not tried again")
		Consistently(ctx, here.explanations).WithArguments("pod").Should(HaveLen(1))
		here.addNode(ctx, "b")
		Eventually(ctx, here.explanations).WithArguments("pod").Should(ContainElement(ContainSubstring("no device of a usable pool reaches the node")))
	})

	It("find its metrics among the scheduler's", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectRunning(ctx, "pod")
		text, err := plane.SchedulerMetrics(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{
			"dray_node_answers_total", "dray_allocations_total", "dray_allocation_duration_seconds", "dray_search_steps", "dray_remembered_answers_total",
			"dray_state_update_duration_seconds", "dray_pools", "dray_allocated_claims", "dray_claim_conflicts_total",
		} {
			Expect(text).To(ContainSubstring("# HELP " + name + " "))
		}
		Expect(text).To(MatchRegexp(`dray_allocations_total\{outcome="success"\} [1-9]`))
	})

	DescribeTable("learn at the start that arguments are wrong", func(ctx SpecContext, arguments, complaint string) {
		Expect(plane.StopScheduler()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			plane.SetPluginArguments("")
			Expect(plane.StartScheduler(ctx)).To(Succeed())
		})
		plane.SetPluginArguments(arguments)
		Expect(plane.StartScheduler(ctx)).To(MatchError(And(ContainSubstring("arguments of plugin Dray"), ContainSubstring(complaint))))
	},
		Entry("a value out of range", `{"filterBudget":-1}`, "filterBudget: Invalid value"),
		Entry("a field that does not exist", `{"filterbudgets":1}`, "filterbudgets"),
		Entry("fields that exclude each other", `{"scoring":{"packing":1,"spreading":1}}`, "scoring.spreading: Forbidden"),
	)
})

// refusal is what the scheduler says about a pod that fits no node.
func (a *arena) refusal(ctx context.Context, pod string) (string, error) {
	found, err := client.CoreV1().Pods(a.namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Message, nil
		}
	}
	return "", fmt.Errorf("pod %s was not looked at", pod)
}

// explanations are the notes of the Events that sum up why a pod gets no devices.
func (a *arena) explanations(ctx context.Context, pod string) ([]string, error) {
	events, err := a.eventsOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, event := range events {
		if event.Reason == "DevicesUnavailable" {
			notes = append(notes, event.Note)
		}
	}
	return notes, nil
}

func (a *arena) eventsOf(ctx context.Context, pod string) ([]eventsv1.Event, error) {
	events, err := client.EventsV1().Events(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(events.Items, func(event eventsv1.Event) bool { return event.Regarding.Name != pod }), nil
}

// attempts tells how often the scheduler has looked at the state of devices for a pod.
func attempts(ctx context.Context) float64 {
	GinkgoHelper()
	return metric(ctx, "dray_state_update_duration_seconds_count")
}
