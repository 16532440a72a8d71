// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Pod groups", func() {
	It("share a claim that is reserved for the group", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(1, "a100", "80Gi")...)
		here.addClaim(ctx, "gpus", here.gpus(1))
		claim := schedulingapi.PodGroupResourceClaim{Name: "gpus", ResourceClaimName: ptr.To("gpus")}
		here.addGroup(ctx, "group", 2, claim)
		pods := here.addPods(ctx, "pod", 2, inGroup("group"), withClaim("gpus"))
		here.expectRunning(ctx, pods...)
		Expect(here.nodeOf(ctx, pods[0])).To(Equal(here.nodeOf(ctx, pods[1])))
		Expect(here.claim(ctx, "gpus").Status.ReservedFor).To(ConsistOf(And(
			HaveField("Resource", "podgroups"), HaveField("Name", "group"),
		)))
	})

	It("share a claim that is made for the group", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		claim := schedulingapi.PodGroupResourceClaim{Name: "gpus", ResourceClaimTemplateName: ptr.To("gpus")}
		here.addGroup(ctx, "group", 2, claim)
		pods := here.addPods(ctx, "pod", 2, inGroup("group"), withTemplate("gpus"))
		here.expectRunning(ctx, pods...)
		Expect(here.claims(ctx)).To(HaveLen(1))
	})

	It("get devices for all of their pods or for none", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addGroup(ctx, "group", 2)
		pods := here.addPods(ctx, "pod", 2, inGroup("group"), withTemplate("gpus"))
		here.expectUnschedulable(ctx, pods...)
		Expect(here.holders(ctx)).To(BeEmpty())
		here.addNode(ctx, "b", inventory.GPUs(1, "a100", "80Gi")...)
		here.expectRunning(ctx, pods...)
	})
})

// addGroup adds a PodGroup of which so many pods run, or none.
func (a *arena) addGroup(ctx context.Context, name string, pods int32, claims ...schedulingapi.PodGroupResourceClaim) {
	GinkgoHelper()
	a.addGroupOf(ctx, name, schedulingapi.PodGroupSpec{SchedulingPolicy: gangOf(pods), ResourceClaims: claims})
}

func (a *arena) addGroupOf(ctx context.Context, name string, spec schedulingapi.PodGroupSpec) {
	GinkgoHelper()
	_, err := client.SchedulingV1beta1().PodGroups(a.namespace).Create(ctx, &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func gangOf(pods int32) schedulingapi.PodGroupSchedulingPolicy {
	return schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: pods}}
}

func inGroup(name string) podEdit {
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(name)}
	}
}
