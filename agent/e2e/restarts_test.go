// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/dev/faults"
)

var _ = Describe("A node that is started again", func() {
	It("has the claims of its pods prepared again, once each, and runs them", func(ctx SpecContext) {
		m := newMachine(ctx, 2).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "a", withTemplate)
		here.addPod(ctx, "b", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "a", "b")
		var again []string
		for _, uid := range uids(here.claimOf(ctx, "a"), here.claimOf(ctx, "b")) {
			again = append(again, "prepare "+uid)
		}
		Expect(m.drivers[m.driver].Taken()).To(ConsistOf(again))
		for range 3 {
			Expect(m.stop()).To(Succeed())
			m.run(ctx)
			Eventually(m.runner.creations).Should(ConsistOf("a", "b"))
			Expect(m.drivers[m.driver].Taken()).To(ConsistOf(again))
		}
	})

	It("does not run again what must not be restarted", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "never", withTemplate, withoutRestart)
		here.expectPhase(ctx, corev1.PodRunning, "never")
		Expect(m.stop()).To(Succeed())
		m.run(ctx)
		here.expectPhase(ctx, corev1.PodFailed, "never")
		Eventually(m.prepared).Should(BeEmpty())
		Expect(m.runner.creations()).To(BeEmpty())
		Eventually(ctx, here.holders).Should(BeEmpty())
	})

	DescribeTable("goes on where it stopped", func(ctx SpecContext, point faults.Fault, prepared int) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		hold := m.proxy.Hold(point)
		here.addPod(ctx, "pod", withTemplate)
		if point.Methods[0] == http.MethodDelete {
			here.expectPhase(ctx, corev1.PodRunning, "pod")
			here.remove(ctx, "pod", 30)
		}
		Eventually(hold.Arrived()).Should(BeClosed())
		Expect(m.prepared()).To(HaveLen(prepared))
		Expect(m.stop()).To(Succeed())
		m.proxy.Heal()
		m.run(ctx)
		if point.Methods[0] == http.MethodDelete {
			here.expectGone(ctx, "pod")
			return
		}
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.prepared()).To(Equal(uids(here.claimOf(ctx, "pod"))))
	},
		Entry("before it knows the claim", toClaims, 0),
		Entry("before it says that the pod runs", toStatuses, 1),
		Entry("before it deletes the pod", toDeletions, 0),
	)

	It("does not start on a damaged checkpoint, and leaves all prepared", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.stop()).To(Succeed())
		path := filepath.Join(m.folder, "claims.json")
		good, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path, good[:len(good)-5], 0o600)).To(Succeed())
		m.begin()
		Eventually(m.ended).Should(Receive(&err))
		m.ended = nil
		Expect(err).To(MatchError(ContainSubstring("damaged")))
		Expect(m.prepared()).To(HaveLen(1))
		Expect(os.WriteFile(path, good, 0o600)).To(Succeed())
		m.run(ctx)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
	})

	It("ends while nothing answers", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		hold := m.proxy.Hold(faults.Fault{Methods: []string{http.MethodPatch, http.MethodPost, http.MethodPut}, Path: regexp.MustCompile("/")})
		here.addPod(ctx, "pod", withTemplate)
		Eventually(hold.Arrived()).Should(BeClosed())
		Expect(m.stop()).To(Succeed())
		hold.Release()
	})
})
