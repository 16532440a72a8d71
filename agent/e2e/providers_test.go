// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/simulated"
)

var _ = Describe("A provider", func() {
	It("that blocks holds up one pod, and the node ends nevertheless when it goes on", func(ctx SpecContext) {
		release := make(chan struct{})
		m := newMachine(ctx, 2).run(ctx, func(r *runner) {
			r.create = func(pod *corev1.Pod) error {
				if pod.Name == "blocked" {
					<-release
				}
				return nil
			}
		})
		here.addTemplate(ctx)
		here.addPod(ctx, "blocked", withTemplate)
		here.addPod(ctx, "other", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "other")
		here.expectPhase(ctx, corev1.PodPending, "blocked")
		here.remove(ctx, "blocked", 0)
		here.expectGone(ctx, "blocked")
		Consistently(m.prepared).Should(HaveLen(2), "nobody knows whether the blocked pod runs")
		close(release)
		Eventually(m.prepared).Should(HaveLen(1))
	})

	It("that refuses a pod for good has its claims released before the pod is Failed", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx, func(r *runner) {
			r.create = func(*corev1.Pod) error { return errdefs.InvalidInput("no such image") }
		})
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodFailed, "pod")
		Expect(m.prepared()).To(BeEmpty())
		Eventually(ctx, here.warnings).WithArguments("pod", "ProviderCreateFailed").Should(ContainElement(ContainSubstring("no such image")))
		Eventually(ctx, here.holders).Should(BeEmpty())
	})

	It("that fails for a while runs the pod in the end, and its claim is prepared once", func(ctx SpecContext) {
		var attempts atomic.Int32
		m := newMachine(ctx, 1).run(ctx, func(r *runner) {
			r.create = func(*corev1.Pod) error {
				if attempts.Add(1) <= 3 {
					return errors.New("out of memory")
				}
				return nil
			}
		})
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate, withoutRestart)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.drivers[m.driver].Taken()).To(HaveLen(1))
	})

	It("that tells of pods that do not exist, of none, and of those of others is not believed", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		pod := here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		unknown, another := pod.DeepCopy(), pod.DeepCopy()
		unknown.Name, unknown.UID, another.UID = "unknown", "unknown", "another"
		for _, lie := range []*corev1.Pod{unknown, another} {
			lie.Status.Phase = corev1.PodFailed
			m.runner.report(lie)
		}
		m.runner.report(nil)
		Consistently(ctx, here.phase).WithArguments("pod").Should(Equal(corev1.PodRunning))
		Expect(m.prepared()).To(Equal(uids(here.claimOf(ctx, "pod"))))
	})

	It("that says that a pod runs again which has ended is not believed", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate, withoutRestart, withAnnotation(simulated.AnnotationRunFor, "10ms"))
		here.expectPhase(ctx, corev1.PodSucceeded, "pod")
		ended, err := here.pod(ctx, "pod")
		Expect(err).NotTo(HaveOccurred())
		ended.Status.Phase = corev1.PodRunning
		m.runner.report(ended)
		ended = ended.DeepCopy()
		ended.Status.Phase = corev1.PodFailed
		m.runner.report(ended)
		Consistently(ctx, here.phase).WithArguments("pod").Should(Equal(corev1.PodSucceeded))
		Expect(m.prepared()).To(BeEmpty())
	})

	It("that shows no pods though it runs them is asked to create them once", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate, withoutRestart)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		claim := here.claimOf(ctx, "pod")
		Expect(m.stop()).To(Succeed())
		m.run(ctx, func(r *runner) {
			r.get = func(string, string) (*corev1.Pod, error) { return nil, nil }
			r.list = func() ([]*corev1.Pod, error) { return []*corev1.Pod{nil}, nil }
		})
		here.expectPhase(ctx, corev1.PodFailed, "pod")
		Eventually(m.prepared).ShouldNot(Equal(uids(claim)))
		Expect(m.runner.creations()).To(BeEmpty())
	})

	It("that has pods which Kubernetes does not know is told to delete them", func(ctx SpecContext) {
		m := newMachine(ctx, 1)
		dangling := &corev1.Pod{Spec: corev1.PodSpec{NodeName: here.node, Containers: []corev1.Container{{Name: "main"}}}}
		dangling.Namespace, dangling.Name, dangling.UID = here.namespace, "dangling", types.UID("dangling")
		m.begin(func(r *runner) {
			Expect(r.Provider.CreatePod(ctx, dangling)).To(Succeed())
		})
		Eventually(func() bool {
			_, err := m.runner.Provider.GetPod(ctx, here.namespace, "dangling")
			return errdefs.IsNotFound(err)
		}).Should(BeTrue())
	})

	DescribeTable("that panics ends the node with an error, and the next node goes on", func(ctx SpecContext, method string, change func(*runner)) {
		m := newMachine(ctx, 2).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "deleted", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "deleted")
		Expect(m.stop()).To(Succeed())
		m.begin(change)
		here.addPod(ctx, "pod", withTemplate)
		if method == "DeletePod" {
			Eventually(m.runner.creations).Should(ContainElement("deleted"))
			here.remove(ctx, "deleted", 3600)
		}
		var err error
		Eventually(m.ended).Should(Receive(&err))
		m.ended = nil
		Expect(err).To(MatchError(And(ContainSubstring("the provider panicked"), ContainSubstring("out of luck"))))
		m.run(ctx)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
	},
		Entry("in CreatePod", "CreatePod", func(r *runner) { r.create = func(*corev1.Pod) error { panic("out of luck") } }),
		Entry("in DeletePod", "DeletePod", func(r *runner) { r.remove = func(*corev1.Pod) error { panic("out of luck") } }),
		Entry("in GetPod", "GetPod", func(r *runner) {
			r.get = func(string, string) (*corev1.Pod, error) { panic("out of luck") }
		}),
		Entry("in GetPods", "GetPods", func(r *runner) { r.list = func() ([]*corev1.Pod, error) { panic("out of luck") } }),
	)
})
