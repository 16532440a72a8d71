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
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// Groups whose pods do not get devices one after the other, and do together. kube-scheduler's own plugin leaves them
// pending: kubernetes/kubernetes#138765.
var _ = Describe("Gangs", func() {
	It("get halves where the first pod would take the whole", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addPod(ctx, "alone", withTemplate("part")) // the positive control: a pod by itself gets the whole
		here.expectRunning(ctx, "alone")
		Expect(here.devicesOf(ctx, here.claimOf(ctx, "alone"))).To(ConsistOf("part/whole: a/gpu-0"))
		here.deletePod(ctx, "alone")
		here.addGroup(ctx, "gang", 2)
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"))
		if !here.expectTogether(ctx, pods...) {
			return
		}
		Expect(here.devicesOf(ctx, here.claimOf(ctx, pods[0]))).To(ConsistOf("part/half: a/gpu-0-half-0"))
		Expect(here.devicesOf(ctx, here.claimOf(ctx, pods[1]))).To(ConsistOf("part/half: a/gpu-0-half-1"))
	})

	It("mix partitions, the first pods having the larger ones", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 2)
		here.addTemplate(ctx, "part", here.parts("whole", "half", "quarter"))
		here.addGroup(ctx, "gang", 4)
		here.expectTogether(ctx, here.addPods(ctx, "pod", 4, inGroup("gang"), withTemplate("part"))...)
	})

	It("use nodes with as much CPU as they need", func(ctx SpecContext) {
		for _, node := range []string{"a", "b"} {
			here.addPartitionable(ctx, node, 1)
		}
		here.addPod(ctx, "other", onNode(here.name("a")), withCPUs(cpus-2)) // leaves CPU for one pod
		here.expectRunning(ctx, "other")
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", 3)
		pods := here.addPods(ctx, "pod", 3, inGroup("gang"), withTemplate("part"), withCPUs(2))
		here.expectTogether(ctx, pods...)
	})

	It("are as many as there are devices for, if that is enough", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", 2)
		pods := here.addPods(ctx, "pod", 3, inGroup("gang"), withTemplate("part"))
		if scheduler != controlplane.Dray {
			here.expectUnschedulable(ctx, pods[0])
			Consistently(ctx, here.runningOf).WithArguments(pods).Should(BeEmpty())
			return
		}
		Eventually(ctx, here.runningOf).WithArguments(pods).Should(HaveLen(2))
		Consistently(ctx, here.runningOf).WithArguments(pods).Should(HaveLen(2))
	})

	It("share a claim and have one of their own", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 2)
		here.addClaim(ctx, "common", here.parts("whole"))
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", 2, schedulingapi.PodGroupResourceClaim{Name: "common", ResourceClaimName: ptr.To("common")})
		here.expectTogether(ctx, here.addPods(ctx, "pod", 2, inGroup("gang"), withClaim("common"), withTemplate("part"))...)
	})

	It("compete, and the second gets its devices when the first has gone", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "one", 2)
		first := here.addPods(ctx, "one", 2, inGroup("one"), withTemplate("part"))
		if !here.expectTogether(ctx, first...) {
			return
		}
		here.addGroup(ctx, "two", 2)
		second := here.addPods(ctx, "two", 2, inGroup("two"), withTemplate("part"))
		here.expectUnschedulable(ctx, second...)
		for _, pod := range first {
			here.deletePod(ctx, pod)
		}
		here.expectRunning(ctx, second...)
	})

	It("that come at the same time get their devices one group after the other", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		groups := make(map[string][]string)
		for _, name := range []string{"one", "two"} {
			here.addGroup(ctx, name, 2)
		}
		for i := range 2 { // the pods of both groups arrive in turn
			for _, name := range []string{"one", "two"} {
				here.addPod(ctx, nth(name, i), inGroup(name), withTemplate("part"))
				groups[name] = append(groups[name], nth(name, i))
			}
		}
		all := slices.Concat(groups["one"], groups["two"])
		if scheduler != controlplane.Dray {
			here.expectUnschedulable(ctx, all...)
			Consistently(ctx, here.runningOf).WithArguments(all).Should(BeEmpty())
			return
		}
		Eventually(ctx, here.runningOf).WithArguments(all).Should(HaveLen(2))
		winner, loser := "one", "two"
		if len(here.runningOf(ctx, groups["one"])) == 0 {
			winner, loser = loser, winner
		}
		here.expectRunning(ctx, groups[winner]...)
		here.expectUnschedulable(ctx, groups[loser]...)
		for _, pod := range groups[winner] {
			here.deletePod(ctx, pod)
		}
		here.expectRunning(ctx, groups[loser]...)
	})

	It("wait if affinity refuses the plan, and go on when there is another way", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", 2)
		apart := func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"job": "gang"}
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: corev1.LabelHostname,
				}},
			}}
		}
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"), apart)
		here.expectUnschedulable(ctx, pods...)
		Consistently(ctx, here.runningOf).WithArguments(pods).Should(BeEmpty())
		here.addPartitionable(ctx, "b", 1)
		here.expectRunning(ctx, pods...)
		Expect(here.nodeOf(ctx, pods[0])).NotTo(Equal(here.nodeOf(ctx, pods[1])))
	})

	It("preempt for devices that are enough only together", func(ctx SpecContext) {
		low, high := here.addPriority(ctx, "low", 1), here.addPriority(ctx, "high", 2)
		here.awaitAdmission(ctx, low)
		here.awaitAdmission(ctx, high)
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "quarter", here.parts("quarter"))
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addPod(ctx, "low", withTemplate("quarter"), withPriority(low))
		here.expectRunning(ctx, "low")
		here.addGroupOf(ctx, "gang", schedulingapi.PodGroupSpec{SchedulingPolicy: gangOf(2), PriorityClassName: high})
		here.expectTogether(ctx, here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"), withPriority(high))...)
	})

	It("are 128 pods that need every half of 64 GPUs", func(ctx SpecContext) {
		const nodes, gpus, pods = 16, 4, 128
		for n := range nodes {
			here.addPartitionable(ctx, fmt.Sprint("n", n), gpus)
		}
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", pods)
		here.expectTogether(ctx, here.addPods(ctx, "pod", pods, inGroup("gang"), withTemplate("part"))...)
	})

	It("wait if another plugin refuses the plan, and go on when there is another way", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", 2)
		port := func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
		}
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"), port)
		here.expectUnschedulable(ctx, pods...)
		here.addPartitionable(ctx, "b", 1)
		here.expectRunning(ctx, pods...)
	})

	It("never run without the devices of their extended resources", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 2)
		resource := here.addExtendedResource(ctx)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroup(ctx, "gang", 2)
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"), requesting(resource, 1))
		if !here.expectTogether(ctx, pods...) {
			return
		}
		claims, err := here.claims(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(claims).To(HaveLen(2 * len(pods)))
	})
})

// parts asks for one device of the first profile that can be had.
func (a *arena) parts(profiles ...string) resourceapi.DeviceClaim {
	request := resourceapi.DeviceRequest{Name: "part"}
	for _, profile := range profiles {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: profile, DeviceClassName: a.class, Selectors: []resourceapi.DeviceSelector{cel(a.is("profile", profile))},
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}
}

// addPartitionable adds a node with GPUs that can be had whole, in halves or in quarters.
func (a *arena) addPartitionable(ctx context.Context, suffix string, gpus int) {
	GinkgoHelper()
	node := a.addNode(ctx, suffix)
	a.addSlices(ctx, inventory.Partitionable(a.driver, node, gpus, "a100")...)
}

// expectTogether expects that pods run which do not get devices one after the other. With kube-scheduler's own plugin they
// wait, and it is false.
func (a *arena) expectTogether(ctx context.Context, pods ...string) bool {
	GinkgoHelper()
	if scheduler != controlplane.Dray {
		a.expectUnschedulable(ctx, pods[0])
		Consistently(ctx, a.runningOf).WithArguments(pods).Should(BeEmpty())
		return false
	}
	a.expectRunning(ctx, pods...)
	return true
}
