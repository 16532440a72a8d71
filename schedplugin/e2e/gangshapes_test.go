// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// Groups as they are met with in practice, on several nodes.
var _ = Describe("Gangs on several nodes", func() {
	It("leave the GPUs that have a NIC to those that need both", func(ctx SpecContext) {
		const nodes, pairs = 4, 2
		for n := range nodes { // as many GPUs have a NIC beside them as have none
			var devices []resourceapi.Device
			for root := range int64(2 * pairs) {
				if devices = append(devices, inventory.GPU(nth("gpu", int(root)), "a100", root, "80Gi")); root < pairs {
					devices = append(devices, inventory.GPU(nth("nic", int(root)), "cx7", root, "1Gi"))
				}
			}
			here.addNode(ctx, nth("n", n), devices...)
		}
		gpu, nic := here.gpus(1, selecting(here.is("model", "a100"))), here.gpus(1, selecting(here.is("model", "cx7"))).Requests[0]
		here.addTemplate(ctx, "gpu", gpu)
		pair := *gpu.DeepCopy()
		nic.Name = "nic"
		pair.Requests = append(pair.Requests, nic)
		pair.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(here.attribute("numa"))}}
		here.addTemplate(ctx, "pair", pair)
		here.addGroup(ctx, "gang", 2*nodes*pairs)
		pods := here.addPods(ctx, "alone", nodes*pairs, inGroup("gang"), withTemplate("gpu"))
		pods = append(pods, here.addPods(ctx, "pair", nodes*pairs, inGroup("gang"), withTemplate("pair"))...)
		here.expectTogether(ctx, pods...)
	})

	It("take all 18 nodes of an NVLink domain, beside other jobs", func(ctx SpecContext) {
		const nodes = 18
		for _, domain := range []string{"one", "two"} {
			for n := range nodes {
				devices := inventory.GPUs(4, "gb200", "186Gi")
				for i := range devices {
					devices[i].Attributes["domain"] = resourceapi.DeviceAttribute{StringValue: ptr.To(domain)}
				}
				here.addNode(ctx, fmt.Sprint(domain, "-", n), devices...)
			}
		}
		here.addTemplate(ctx, "gpu", here.gpus(1))
		here.addPod(ctx, "job-0", onNode(here.name("one-3")), withTemplate("gpu"))
		here.addPod(ctx, "job-1", onNode(here.name("one-11")), withTemplate("gpu"))
		here.expectRunning(ctx, "job-0", "job-1")
		here.addTemplate(ctx, "node", here.gpus(4))
		here.addGroup(ctx, "gang", nodes)
		here.annotateGroup(ctx, extension.Group{Constraints: []extension.GroupMatch{{MatchAttribute: here.attribute("domain")}}})
		pods := here.addPods(ctx, "pod", nodes, inGroup("gang"), withTemplate("node"))
		here.expectRunning(ctx, pods...)
		if scheduler != controlplane.Dray {
			return // they are of both domains, or of one by chance
		}
		for _, pod := range pods {
			Expect(here.nodeOf(ctx, pod)).To(HavePrefix(here.name("two-")))
		}
	})

	It("get their devices though a pod of its own comes in between", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addTemplate(ctx, "quarter", here.parts("quarter"))
		here.addGroup(ctx, "gang", 2)
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"))
		if scheduler != controlplane.Dray {
			here.expectUnschedulable(ctx, pods...)
			return
		}
		here.awaitPlan(ctx, pods)
		here.addPod(ctx, "single", withTemplate("quarter"))
		// Whichever comes first, in the end there is room for the group.
		Eventually(ctx, here.standing).WithArguments("single").Should(BeElementOf(running, unschedulable))
		here.deletePod(ctx, "single")
		here.expectRunning(ctx, pods...)
	})
})

// awaitPlan waits until pods are nominated to the nodes of a plan, or have got there.
func (a *arena) awaitPlan(ctx context.Context, pods []string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		pod, err := client.CoreV1().Pods(a.namespace).Get(ctx, pods[0], metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return pod.Status.NominatedNodeName + pod.Spec.NodeName, nil
	}).ShouldNot(BeEmpty())
}
