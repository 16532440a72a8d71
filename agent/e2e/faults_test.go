// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"regexp"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/dev/faults"
)

// lost stands for a request that is served, and an answer that does not arrive.
const lost = 0

var (
	toClaims    = faults.Fault{Methods: []string{http.MethodGet}, Path: regexp.MustCompile(`/resourceclaims/`)}
	toStatuses  = faults.Fault{Methods: []string{http.MethodPatch}, Path: regexp.MustCompile(`/pods/[^/]+/status$`)}
	toDeletions = faults.Fault{Methods: []string{http.MethodDelete}, Path: regexp.MustCompile(`/pods/`)}
)

var _ = Describe("Failing requests of a node", func() {
	DescribeTable("are repeated until pods run and end", func(ctx SpecContext, fault faults.Fault, status int) {
		m := newMachine(ctx, 2).run(ctx)
		here.addTemplate(ctx)
		claim := here.addClaim(ctx, "claim")
		fault.Status, fault.Times = status, 4
		m.proxy.Inject(fault)
		here.addPod(ctx, "a", withTemplate)
		here.addPod(ctx, "b", withClaim("claim"))
		here.expectPhase(ctx, corev1.PodRunning, "a", "b")
		here.remove(ctx, "a", 30)
		here.expectGone(ctx, "a")
		Expect(m.prepared()).To(Equal(uids(claim)))
		here.remove(ctx, "b", 30)
		here.expectGone(ctx, "b")
		Expect(m.prepared()).To(BeEmpty())
		Expect(m.runner.creations()).To(ConsistOf("a", "b"), "each pod is created once")
		Expect(m.proxy.Heal()).To(BeNumerically(">", 0), "no request met the fault")
	},
		Entry("claims that cannot be read", toClaims, http.StatusInternalServerError),
		Entry("claims that are forbidden for a while", toClaims, http.StatusForbidden),
		Entry("claims that are not found for a while", toClaims, http.StatusNotFound),
		Entry("conflicts when a status is written", toStatuses, http.StatusConflict),
		Entry("internal errors when a status is written", toStatuses, http.StatusInternalServerError),
		Entry("statuses written without an answer", toStatuses, lost),
		Entry("internal errors when a pod is deleted", toDeletions, http.StatusInternalServerError),
		Entry("pods deleted without an answer", toDeletions, lost),
	)

	It("do not let a pod of the same name have the status of the one before", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		hold := m.proxy.Hold(toStatuses)
		first := here.addPod(ctx, "pod", withTemplate)
		Eventually(hold.Arrived()).Should(BeClosed())
		here.remove(ctx, "pod", 0)
		here.expectGone(ctx, "pod")
		second := here.addPod(ctx, "pod", withTemplate, func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		})
		hold.Release()
		Eventually(m.prepared).Should(BeEmpty())
		Consistently(ctx, here.phase).WithArguments("pod").Should(Equal(corev1.PodPending))
		Expect(second.UID).NotTo(Equal(first.UID))
	})

	It("do not keep an API server that was killed from being found again", func(ctx SpecContext) {
		m := newMachine(ctx, 2).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "before", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "before")
		Expect(plane.KillAPIServer()).To(Succeed())
		Expect(plane.StartAPIServer(ctx)).To(Succeed())
		Eventually(ctx, func() error {
			return client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}).Should(Succeed())
		here.addPod(ctx, "after", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "before", "after")
		Expect(m.runner.creations()).To(Equal([]string{"before", "after"}))
	})
})
