// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakedriver"
	"github.com/dray-project/dray/agent/provider/simulated"
)

var _ = Describe("A pod with claims", func() {
	It("runs with its devices, and frees them when it ends", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		claim := here.addClaim(ctx, "one")
		pod := here.addPod(ctx, "pod", withClaim("one"), withoutRestart, withAnnotation(simulated.AnnotationRunFor, "5s"))
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.prepared()).To(Equal(uids(claim)))
		Expect(m.runner.has(pod.UID)).To(ContainElement(HavePrefix(m.driver + "/claim=" + string(claim.UID))))
		here.expectPhase(ctx, corev1.PodSucceeded, "pod")
		Expect(m.prepared()).To(BeEmpty(), "prepared when the API server says that the pod has ended")
		Eventually(ctx, here.holders).Should(BeEmpty())
	})

	It("has its own claim from a template", func(ctx SpecContext) {
		m := newMachine(ctx, 2).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "a", withTemplate)
		here.addPod(ctx, "b", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "a", "b")
		Expect(m.prepared()).To(Equal(uids(here.claimOf(ctx, "a"), here.claimOf(ctx, "b"))))
	})

	It("has devices of several drivers, each of which is called once for all claims", func(ctx SpecContext) {
		m := newMachine(ctx, 2)
		nics := "nic." + m.driver
		nic := m.addDriver(nics)
		here.addDevices(ctx, nics, 1)
		here.addClass(ctx, nics, "")
		m.run(ctx)
		one, two := here.addClaim(ctx, "one"), here.addClaim(ctx, "two", m.driver, nics)
		here.addPod(ctx, "pod", withClaim("one"), withClaim("two"))
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(nic.Holds()).To(Equal(uids(two)))
		Expect(m.drivers[m.driver].Taken()).To(ConsistOf(SatisfyAll(HavePrefix("prepare "), ContainSubstring(string(one.UID)), ContainSubstring(string(two.UID)))))
	})

	It("shares a claim, which is prepared once and unprepared after the last pod", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		claim := here.addClaim(ctx, "shared")
		for _, name := range []string{"a", "b", "c"} {
			here.addPod(ctx, name, withClaim("shared"))
		}
		here.expectPhase(ctx, corev1.PodRunning, "a", "b", "c")
		for _, name := range []string{"b", "a"} {
			here.remove(ctx, name, 30)
			here.expectGone(ctx, name)
			Expect(m.prepared()).To(Equal(uids(claim)))
		}
		here.remove(ctx, "c", 30)
		here.expectGone(ctx, "c")
		Expect(m.drivers[m.driver].Taken()).To(Equal([]string{"prepare " + string(claim.UID), "unprepare " + string(claim.UID)}))
	})

	It("gets devices for an extended resource", func(ctx SpecContext) {
		m := newMachine(ctx, 1)
		extended := m.namespace + ".example.com/gpu"
		here.addClass(ctx, m.driver, extended)
		m.drivers[m.driver].Set(func() { m.drivers[m.driver].Requests = [2][]string{} }) // they are for all requests
		m.run(ctx)
		pod := here.addPod(ctx, "pod", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(extended): resource.MustParse("1")}
		})
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.runner.has(pod.UID)).NotTo(BeEmpty())
		Expect(here.health(ctx, "pod")).To(BeEmpty(), "API servers of Kubernetes 1.36 refuse the health of these")
		here.remove(ctx, "pod", 30)
		here.expectGone(ctx, "pod")
		Expect(m.prepared()).To(BeEmpty())
	})

	It("waits until its claim is allocated and reserved for it, whoever bound it", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		claim := here.addClaim(ctx, "one")
		here.addPod(ctx, "pod", withClaim("one"), func(pod *corev1.Pod) { pod.Spec.NodeName = m.node })
		Eventually(ctx, here.warnings).WithArguments("pod", "ProviderCreateFailed").Should(ContainElement(ContainSubstring("not allocated")))
		Expect(m.drivers[m.driver].Taken()).To(BeEmpty())
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "request-0", Driver: m.driver, Pool: m.node, Device: "gpu-0"}},
		}}
		claims, allocation := client.ResourceV1().ResourceClaims(here.namespace), claim.Status
		claim.Finalizers = []string{resourceapi.Finalizer} // as a scheduler does first
		claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		claim.Status = allocation
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		// A controller reserves it for the pod.
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.prepared()).To(Equal(uids(claim)))
	})

	It("is evicted when a rule taints its device", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		rule, err := client.ResourceV1().DeviceTaintRules().Create(ctx, &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: m.namespace},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(m.driver)},
				Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.ResourceV1().DeviceTaintRules().Delete(ctx, rule.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		here.expectGone(ctx, "pod")
		Expect(m.prepared()).To(BeEmpty())
	})

	It("has a successor of its name, with a claim of its own", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		for range 3 {
			pod := here.addPod(ctx, "pod", withTemplate)
			Eventually(ctx, func() []string { return m.runner.has(pod.UID) }).ShouldNot(BeEmpty())
			here.expectPhase(ctx, corev1.PodRunning, "pod")
			Expect(m.prepared()).To(Equal(uids(here.claimOf(ctx, "pod"))))
			here.remove(ctx, "pod", 0)
			here.expectGone(ctx, "pod")
		}
	})

	It("is one of many that pass through a few devices", func(ctx SpecContext) {
		const pods, devices = 40, 4
		newMachine(ctx, devices).run(ctx)
		here.addTemplate(ctx)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](pods), Parallelism: ptr.To[int32](2 * devices),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simulated.AnnotationRunFor: "20ms"}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{corev1.LabelHostname: here.node},
					ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("own")}},
					Containers: []corev1.Container{{Name: "main", Image: "example.com/main",
						Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
				},
			},
		}}
		_, err := client.BatchV1().Jobs(here.namespace).Create(ctx, job, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() (int32, error) {
			job, err := client.BatchV1().Jobs(here.namespace).Get(ctx, "job", metav1.GetOptions{})
			return job.Status.Succeeded, err
		}).Should(BeEquivalentTo(pods))
	})
})

// health says how the devices of a pod's container are, by its status: "name health message".
func (a *arena) health(ctx context.Context, name string) ([]string, error) {
	pod, err := a.pod(ctx, name)
	if err != nil || len(pod.Status.ContainerStatuses) == 0 {
		return nil, err
	}
	var all []string
	for _, status := range pod.Status.ContainerStatuses[0].AllocatedResourcesStatus {
		for _, device := range status.Resources {
			line := fmt.Sprintf("%s %s", device.ResourceID, device.Health)
			if device.Message != nil {
				line += " " + *device.Message
			}
			all = append(all, line)
		}
	}
	return all, nil
}

var _ = Describe("A pod that is deleted", func() {
	It("by force ends on its node, too, and its device is free for the next", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		first := here.addPod(ctx, "first", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "first")
		here.remove(ctx, "first", 0)
		here.addPod(ctx, "second", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "second")
		Eventually(m.prepared).Should(Equal(uids(here.claimOf(ctx, "second"))))
		Expect(m.runner.creations()).To(Equal([]string{"first", "second"}))
		Expect(m.runner.users(string(first.UID))).To(BeEmpty())
	})

	It("by force while the node is down is released when the node is back", func(ctx SpecContext) {
		m := newMachine(ctx, 2).run(ctx)
		stays := here.addClaim(ctx, "stays")
		here.addTemplate(ctx)
		here.addPod(ctx, "stays", withClaim("stays"))
		here.addPod(ctx, "goes", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "stays", "goes")
		Expect(m.stop()).To(Succeed())
		here.remove(ctx, "goes", 0)
		here.expectGone(ctx, "goes")
		Expect(m.prepared()).To(HaveLen(2))
		m.run(ctx)
		Eventually(m.prepared).Should(Equal(uids(stays)))
		here.expectPhase(ctx, corev1.PodRunning, "stays")
	})

	It("while the node is down ends when the node is back", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Expect(m.stop()).To(Succeed())
		here.remove(ctx, "pod", 30)
		Consistently(ctx, here.phase).WithArguments("pod").Should(Equal(corev1.PodRunning))
		m.run(ctx)
		here.expectGone(ctx, "pod")
		Eventually(m.prepared).Should(BeEmpty())
	})

	It("before its claims are prepared never runs, and leaves nothing prepared", func(ctx SpecContext) {
		m := newMachine(ctx, 1)
		nics := "nic." + m.driver
		m.addDriver(nics)
		here.addDevices(ctx, nics, 1)
		here.addClass(ctx, nics, "")
		m.run(ctx)
		claim := here.addClaim(ctx, "both", m.driver, nics)
		m.drivers[nics].Set(func() { m.drivers[nics].Refuse["prepare "+string(claim.UID)] = "no link" })
		here.addPod(ctx, "pod", withClaim("both"))
		Eventually(m.prepared).Should(Equal(uids(claim)), "the other driver does its part")
		here.remove(ctx, "pod", 30)
		here.expectGone(ctx, "pod")
		Eventually(m.prepared).Should(BeEmpty())
		Expect(m.runner.creations()).To(BeEmpty())
	})

	It("has its grace, and is gone after it, though its provider does not end it", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx, func(r *runner) {
			r.remove = func(*corev1.Pod) error { return context.DeadlineExceeded }
		})
		claim := here.addClaim(ctx, "one")
		here.addPod(ctx, "pod", withClaim("one"))
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		here.remove(ctx, "pod", 1)
		here.expectGone(ctx, "pod")
		Expect(m.prepared()).To(Equal(uids(claim)), "the provider still runs it")
		Eventually(ctx, here.warnings).WithArguments("pod", "ProviderDeleteFailed").ShouldNot(BeEmpty())
		Expect(m.stop()).To(Succeed())
		m.run(ctx)
		Eventually(m.prepared).Should(BeEmpty(), "the next provider does not run it")
	})
})

var _ = Describe("A driver", func() {
	It("that is missing holds up its pods only, and an Event names it", func(ctx SpecContext) {
		m := newMachine(ctx, 1)
		m.drivers[m.driver].Stop()
		m.run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.addPod(ctx, "other")
		here.expectPhase(ctx, corev1.PodRunning, "other")
		Eventually(ctx, here.warnings).WithArguments("pod", "FailedPrepareDynamicResources").Should(ContainElement(ContainSubstring("driver " + m.driver + ": not registered")))
		here.expectPhase(ctx, corev1.PodPending, "pod")
		Expect(m.drivers[m.driver].Listen()).To(Succeed())
		here.expectPhase(ctx, corev1.PodRunning, "pod")
	})

	It("that registers with versions that nobody speaks counts as missing", func(ctx SpecContext) {
		m := newMachine(ctx, 1)
		driver := m.drivers[m.driver]
		versions := driver.Versions
		driver.Stop()
		driver.Set(func() { driver.Versions = []string{"v0.DRAPlugin"} })
		Expect(driver.Listen()).To(Succeed())
		m.run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		Eventually(ctx, here.warnings).WithArguments("pod", "FailedPrepareDynamicResources").ShouldNot(BeEmpty())
		driver.Stop()
		driver.Set(func() { driver.Versions = versions })
		Expect(driver.Listen()).To(Succeed())
		here.expectPhase(ctx, corev1.PodRunning, "pod")
	})

	DescribeTable("that does not prepare is asked again, and an Event says why", func(ctx SpecContext, spoil func(d *fakedriver.Driver, claim string), why string) {
		m := newMachine(ctx, 1).run(ctx)
		claim := here.addClaim(ctx, "one")
		driver := m.drivers[m.driver]
		driver.Set(func() { spoil(driver, string(claim.UID)) })
		here.addPod(ctx, "pod", withClaim("one"))
		Eventually(ctx, here.warnings).WithArguments("pod", "FailedPrepareDynamicResources").Should(ContainElement(And(ContainSubstring(m.driver), ContainSubstring(why))))
		here.expectPhase(ctx, corev1.PodPending, "pod")
		driver.Set(func() { clear(driver.Refuse); driver.Omit = "" })
		here.expectPhase(ctx, corev1.PodRunning, "pod")
	},
		Entry("because it fails", func(d *fakedriver.Driver, claim string) { d.Refuse["prepare "+claim] = "the device is hot" }, "the device is hot"),
		Entry("because it forgets the claim", func(d *fakedriver.Driver, claim string) { d.Omit = claim }, "leaves the claim out"),
	)

	It("that does not unprepare holds back the pod's end, and the device", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		claim := here.addClaim(ctx, "one")
		driver := m.drivers[m.driver]
		driver.Set(func() { driver.Refuse["unprepare "+string(claim.UID)] = "busy" })
		here.addPod(ctx, "pod", withClaim("one"), withoutRestart, withAnnotation(simulated.AnnotationRunFor, "10ms"))
		Eventually(driver.Taken).Should(ContainElement(HavePrefix("unprepare ")))
		here.expectPhase(ctx, corev1.PodRunning, "pod") // its status may be written after the driver is asked
		Consistently(ctx, here.phase).WithArguments("pod").Should(Equal(corev1.PodRunning))
		Expect(here.holders(ctx)).To(Equal([]string{"one"}))
		driver.Set(func() { clear(driver.Refuse) })
		here.expectPhase(ctx, corev1.PodSucceeded, "pod")
		Eventually(ctx, here.holders).Should(BeEmpty())
	})

	It("that does not unprepare while the pod has its grace is not asked to prepare the device for the next", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		claim := here.addClaim(ctx, "one")
		driver := m.drivers[m.driver]
		driver.Set(func() { driver.Refuse["unprepare "+string(claim.UID)] = "busy" })
		here.addPod(ctx, "first", withClaim("one"))
		here.expectPhase(ctx, corev1.PodRunning, "first")
		here.remove(ctx, "first", 1)
		here.expectGone(ctx, "first")
		next := here.addClaim(ctx, "two")
		here.addPod(ctx, "second", withClaim("two"))
		Eventually(ctx, here.holders).Should(Equal([]string{"two"}))
		Consistently(m.prepared).Should(Equal(uids(claim)))
		driver.Set(func() { clear(driver.Refuse) })
		here.expectPhase(ctx, corev1.PodRunning, "second")
		Expect(m.prepared()).To(Equal(uids(next)))
	})

	It("that is gone when the pod ends is asked when it is back", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		m.drivers[m.driver].Stop()
		here.remove(ctx, "pod", 3600)
		Consistently(ctx, here.phase).WithArguments("pod").Should(Equal(corev1.PodRunning))
		Expect(m.drivers[m.driver].Listen()).To(Succeed())
		here.expectGone(ctx, "pod")
		Expect(m.prepared()).To(BeEmpty())
	})

	It("that is killed for good has its devices withdrawn, and offers them again when it is back", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		slices := func(ctx context.Context) (int, error) {
			list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
				FieldSelector: fields.Set{resourceapi.ResourceSliceSelectorNodeName: m.node, resourceapi.ResourceSliceSelectorDriver: m.driver}.String(),
			})
			return len(list.Items), err
		}
		Expect(slices(ctx)).To(Equal(1))
		m.drivers[m.driver].Kill()
		Eventually(ctx, slices).Should(BeZero(), "as kubelet does after 30 s")
		Expect(os.Remove(m.drivers[m.driver].Endpoint)).To(Succeed())
		Expect(m.drivers[m.driver].Listen()).To(Succeed())
		m.addDevices(ctx, m.driver, 1)
		here.addTemplate(ctx)
		here.addPod(ctx, "pod", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "pod")
	})

	It("that says how its devices are is quoted in the status of the pod", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		driver := m.drivers[m.driver]
		driver.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_HEALTHY)
		here.addClaim(ctx, "one")
		here.addPod(ctx, "pod", withClaim("one"))
		health := func(first, second corev1.ResourceHealthStatus) []string {
			uid := here.claim(ctx, "one").UID
			return []string{fmt.Sprintf("%s/claim=%s-0 %s", m.driver, uid, first), fmt.Sprintf("%s/claim=%s-1 %s", m.driver, uid, second)}
		}
		Eventually(ctx, here.health).WithArguments("pod").Should(Equal(health("Healthy", "Healthy")))
		driver.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY)
		Eventually(ctx, here.health).WithArguments("pod").Should(Equal(health("Healthy", "Unhealthy")))
		driver.Stop()
		Eventually(ctx, here.health).WithArguments("pod").Should(Equal(health("Unknown", "Unknown")))
		Expect(driver.Listen()).To(Succeed())
		Eventually(ctx, here.health).WithArguments("pod").Should(Equal(health("Healthy", "Unhealthy")))
	})

	It("that gives its devices a CDI device in common does not have the API server refuse the status of the pod", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		driver := m.drivers[m.driver]
		common := m.driver + commonDevice
		driver.Set(func() { driver.Common, driver.Message = common, strings.Repeat("hot ", 500) })
		driver.Report(drahealth.HealthStatus_HEALTHY, drahealth.HealthStatus_UNHEALTHY)
		here.addClaim(ctx, "one")
		here.addPod(ctx, "pod", withClaim("one"))
		here.expectPhase(ctx, corev1.PodRunning, "pod")
		Eventually(ctx, here.health).WithArguments("pod").Should(ConsistOf(And(HavePrefix(common+" Unhealthy hot hot "), HaveSuffix("..."))))
	})

	It("that blocks while it prepares holds up one pod", func(ctx SpecContext) {
		m := newMachine(ctx, 2).run(ctx)
		claim := here.addClaim(ctx, "one")
		release := make(chan struct{})
		driver := m.drivers[m.driver]
		driver.Set(func() {
			driver.During = func(call, at string) {
				if call == "prepare "+string(claim.UID) && at == "before" {
					<-release
				}
				m.during(call, at)
			}
		})
		here.addPod(ctx, "blocked", withClaim("one"))
		here.addTemplate(ctx)
		here.addPod(ctx, "other", withTemplate)
		here.expectPhase(ctx, corev1.PodRunning, "other")
		here.expectPhase(ctx, corev1.PodPending, "blocked")
		close(release)
		here.expectPhase(ctx, corev1.PodRunning, "blocked")
	})
})
