// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	alphaapi "k8s.io/api/scheduling/v1alpha3"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// rack is the label of nodes that tells domains apart.
const rack = "example.com/rack"

// Groups with a topology constraint. The framework tries them in each domain by itself.
var _ = Describe("Gangs in one domain of nodes", func() {
	BeforeEach(func(ctx SpecContext) { heedPlacements(ctx) })

	It("go where all have devices one after the other", func(ctx SpecContext) {
		for node, in := range map[string]string{"a": "one", "b": "two", "c": "two", "d": "three"} {
			here.addNode(ctx, node, inventory.GPUs(1, "a100", "80Gi")...)
			here.putInto(ctx, node, in)
		}
		here.addTemplate(ctx, "gpu", here.gpus(1))
		here.addGroupOf(ctx, "gang", inRack(2))
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("gpu"))
		here.expectRunning(ctx, pods...)
		here.expectOn(ctx, pods, "b", "c")
	})

	It("are planned in each domain by itself", func(ctx SpecContext) {
		for node, in := range map[string]string{"a": "one", "b": "two", "c": "two", "d": "three"} {
			here.addPartitionable(ctx, node, 1)
			here.putInto(ctx, node, in)
		}
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroupOf(ctx, "gang", inRack(3))
		pods := here.addPods(ctx, "pod", 3, inGroup("gang"), withTemplate("part"))
		if here.expectTogether(ctx, pods...) {
			here.expectOn(ctx, pods, "b", "c")
		}
	})

	It("wait if they fit in several domains only, and go on when one has enough", func(ctx SpecContext) {
		for node, in := range map[string]string{"a": "one", "b": "two"} {
			here.addPartitionable(ctx, node, 1)
			here.putInto(ctx, node, in)
		}
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addGroupOf(ctx, "gang", inRack(3))
		pods := here.addPods(ctx, "pod", 3, inGroup("gang"), withTemplate("part"))
		here.expectUnschedulable(ctx, pods[0])
		if scheduler == controlplane.Dray {
			Eventually(ctx, here.conditionOf).WithArguments("gang").Should(ContainSubstring("together, 2 of 3 pods get devices and the group needs 3"))
		}
		here.addPartitionable(ctx, "c", 1)
		here.putInto(ctx, "c", "two")
		if here.expectTogether(ctx, pods...) {
			here.expectOn(ctx, pods, "b", "c")
		}
	})

	It("preempt in one of them for devices that are enough only together", func(ctx SpecContext) {
		low, high := here.addPriority(ctx, "low", 1), here.addPriority(ctx, "high", 2)
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.putInto(ctx, "a", "one")
		here.addPartitionable(ctx, "b", 1)
		here.putInto(ctx, "b", "two")
		here.addTemplate(ctx, "any", here.gpus(1))
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		here.addPod(ctx, "low-a", withTemplate("any"), withPriority(low), onNode(here.name("a")))
		here.addPod(ctx, "low-b", withTemplate("part"), withPriority(low), onNode(here.name("b")))
		here.expectRunning(ctx, "low-a", "low-b")
		spec := inRack(2)
		spec.PriorityClassName = high
		here.addGroupOf(ctx, "gang", spec)
		pods := here.addPods(ctx, "pod", 2, inGroup("gang"), withTemplate("part"), withPriority(high))
		if here.expectTogether(ctx, pods...) {
			here.expectOn(ctx, pods, "b", "b")
			here.expectRunning(ctx, "low-a")
		}
	})
})

// CompositePodGroups: groups of groups, which the framework places one after the other.
var _ = Describe("Gangs of gangs", func() {
	BeforeEach(func(ctx SpecContext) { heedPlacements(ctx) })

	It("are planned one after the other", func(ctx SpecContext) {
		here.addComposite(ctx, "both", 2)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		var pods []string
		for _, name := range []string{"one", "two"} {
			here.addPartitionable(ctx, name, 1)
			here.putInto(ctx, name, name)
			here.addGroupOf(ctx, name, partOf("both", inRack(2)))
			pods = append(pods, here.addPods(ctx, name, 2, inGroup(name), withTemplate("part"))...)
		}
		here.expectTogether(ctx, pods...)
	})

	It("are not planned together, and say so", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 1)
		here.addPartitionable(ctx, "b", 1)
		here.addComposite(ctx, "both", 2)
		here.addTemplate(ctx, "part", here.parts("whole", "half"))
		var pods []string
		for _, name := range []string{"one", "two"} {
			here.addGroupOf(ctx, name, partOf("both", schedulingapi.PodGroupSpec{SchedulingPolicy: gangOf(2)}))
			pods = append(pods, here.addPods(ctx, name, 2, inGroup(name), withTemplate("part"))...)
		}
		here.expectUnschedulable(ctx, pods...)
		Consistently(ctx, here.runningOf).WithArguments(pods).Should(BeEmpty())
		if scheduler == controlplane.Dray {
			Eventually(ctx, here.conditionOf).WithArguments("two").Should(ContainSubstring("the groups of a CompositePodGroup are planned one after the other, not together"))
		}
		here.addPartitionable(ctx, "c", 2)
		here.expectRunning(ctx, pods...)
	})
})

// heedPlacements has the scheduler heed topology constraints and composite groups.
func heedPlacements(ctx context.Context) {
	GinkgoHelper()
	restart := func(ctx context.Context, on bool) {
		GinkgoHelper()
		Expect(plane.StopScheduler()).To(Succeed())
		plane.SetSchedulerFeatures(placements(on))
		Expect(plane.StartScheduler(ctx)).To(Succeed())
	}
	restart(ctx, true)
	DeferCleanup(func(ctx SpecContext) { restart(ctx, false) })
}

// putInto labels a node with its rack.
func (a *arena) putInto(ctx context.Context, node, in string) {
	GinkgoHelper()
	patch, err := json.Marshal(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{rack: a.name(in)}}})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Nodes().Patch(ctx, a.name(node), types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// inRack is a gang of which all pods go to one rack.
func inRack(pods int32) schedulingapi.PodGroupSpec {
	return schedulingapi.PodGroupSpec{
		SchedulingPolicy:      gangOf(pods),
		SchedulingConstraints: &schedulingapi.PodGroupSchedulingConstraints{Topology: []schedulingapi.TopologyConstraint{{Key: rack}}},
	}
}

// partOf makes a group one of a composite group.
func partOf(composite string, spec schedulingapi.PodGroupSpec) schedulingapi.PodGroupSpec {
	spec.ParentCompositePodGroupName = &composite
	spec.WorkloadRef = &schedulingapi.WorkloadReference{WorkloadName: "job", TemplateName: "part"}
	return spec
}

// addComposite adds a group of groups of which so many start together, or none.
func (a *arena) addComposite(ctx context.Context, name string, groups int32) {
	GinkgoHelper()
	_, err := client.SchedulingV1alpha3().CompositePodGroups(a.namespace).Create(ctx, &alphaapi.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: alphaapi.CompositePodGroupSpec{
			WorkloadRef:      &alphaapi.WorkloadReference{WorkloadName: "job", TemplateName: "all"},
			SchedulingPolicy: alphaapi.CompositePodGroupSchedulingPolicy{Gang: &alphaapi.CompositeGangSchedulingPolicy{MinGroupCount: groups}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.SchedulingV1alpha3().CompositePodGroups(a.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})).To(Succeed())
	})
}

// expectOn expects that pods are on some nodes.
func (a *arena) expectOn(ctx context.Context, pods []string, nodes ...string) {
	GinkgoHelper()
	for i, node := range nodes {
		nodes[i] = a.name(node)
	}
	for _, pod := range pods {
		Expect(a.nodeOf(ctx, pod)).To(BeElementOf(nodes), "node of "+pod)
	}
}

// conditionOf is what the condition of a group says.
func (a *arena) conditionOf(ctx context.Context, name string) (string, error) {
	group, err := client.SchedulingV1beta1().PodGroups(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || len(group.Status.Conditions) == 0 {
		return "", err
	}
	return group.Status.Conditions[0].Message, nil
}
