// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// Groups whose devices have something in common, by an annotation of the PodGroup. kube-scheduler's own plugin does not read it.
var _ = Describe("Gangs with a constraint across pods", func() {
	It("have devices of one model, also for the pod that is added later", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPU("gpu-0", "a100", 0, "80Gi"), inventory.GPU("gpu-1", "h100", 0, "80Gi"))
		here.addNode(ctx, "b", inventory.GPU("gpu-0", "l40", 0, "80Gi"), inventory.GPU("gpu-1", "h100", 0, "80Gi"))
		here.addNode(ctx, "c", inventory.GPU("gpu-0", "a100", 0, "80Gi"), inventory.GPU("gpu-1", "h100", 0, "80Gi"))
		here.addTemplate(ctx, "gpu", here.gpus(1))
		here.addGroup(ctx, "gang", 2)
		here.annotateGroup(ctx, extension.Group{Constraints: []extension.GroupMatch{{MatchAttribute: here.attribute("model")}}})
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("gpu"), withCPUs(cpus-1))
		here.expectRunning(ctx, pods...)
		if scheduler != controlplane.Dray {
			return // what they have is chance
		}
		first := here.modelsOf(ctx, pods...)
		Expect(first[0]).To(Equal(first[1]))
		here.addPod(ctx, "later", inGroup("gang"), withTemplate("gpu"), withCPUs(cpus-1))
		if first[0] == "a100" {
			here.expectUnschedulable(ctx, "later") // both are in use
			return
		}
		here.expectRunning(ctx, "later")
		Expect(here.modelsOf(ctx, "later")).To(Equal(first[:1]))
	})

	It("wait with a constraint that is wrong, and go on when it is mended", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpu", here.gpus(1))
		here.addGroup(ctx, "gang", 2)
		here.annotateGroup(ctx, extension.Group{Constraints: []extension.GroupMatch{{MatchAttribute: here.attribute("model"), Requests: []string{"gpo"}}}})
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("gpu"))
		if scheduler != controlplane.Dray {
			here.expectRunning(ctx, pods...)
			return
		}
		const wrong = `constraints[0].requests[0]: no pod of the group has a request "gpo"`
		here.expectUnschedulable(ctx, pods...)
		Eventually(ctx, func(ctx SpecContext) ([]metav1.Condition, error) {
			group, err := client.SchedulingV1beta1().PodGroups(here.namespace).Get(ctx, "gang", metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return group.Status.Conditions, nil
		}).Should(ContainElement(HaveField("Message", ContainSubstring(wrong))))
		Eventually(ctx, func(ctx SpecContext) ([]string, error) {
			events, err := client.EventsV1().Events(here.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			var notes []string
			for _, event := range events.Items {
				if event.Regarding.Kind == "PodGroup" && event.Reason == "InvalidConstraint" {
					notes = append(notes, event.Note)
				}
			}
			return notes, nil
		}).Should(ContainElement(ContainSubstring(wrong)))
		here.annotateGroup(ctx, extension.Group{Constraints: []extension.GroupMatch{{MatchAttribute: here.attribute("model"), Requests: []string{"gpu"}}}})
		here.expectRunning(ctx, pods...)
	})
})

// annotateGroup says what the devices of all pods of the group "gang" have in common.
func (a *arena) annotateGroup(ctx context.Context, common extension.Group) {
	GinkgoHelper()
	text, err := json.Marshal(common)
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(&schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{extension.Annotation: string(text)}}})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.SchedulingV1beta1().PodGroups(a.namespace).Patch(ctx, "gang", types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// modelsOf are the models of the first devices of pods.
func (a *arena) modelsOf(ctx context.Context, pods ...string) []string {
	GinkgoHelper()
	slices, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var models []string
	for _, pod := range pods {
		result := a.resultsOf(ctx, a.claimOf(ctx, pod))[0]
		for _, slice := range slices.Items {
			for _, device := range slice.Spec.Devices {
				if slice.Spec.Pool.Name == result.Pool && device.Name == result.Device {
					models = append(models, *device.Attributes["model"].StringValue)
				}
			}
		}
	}
	return models
}
