// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// lease is the one that kube-scheduler and dray-scheduler compete for.
const lease = "kube-scheduler"

// The suite's scheduler makes room for replicas that compete for a lease.
var _ = Describe("Replicas", func() {
	BeforeEach(func(ctx SpecContext) {
		Expect(plane.StopScheduler()).To(Succeed())
		if err := client.CoordinationV1().Leases("kube-system").Delete(ctx, lease, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred()) // a spec that failed may have left one
		}
		DeferCleanup(func(ctx SpecContext) { Expect(plane.StartScheduler(ctx)).To(Succeed()) })
	})

	It("hand over while pods are scheduled, whichever way they end", func(ctx SpecContext) {
		const nodes, gpus = 4, 8
		for i := range nodes {
			here.addNode(ctx, nth("n", i), inventory.GPUs(gpus, "a100", "80Gi")...)
		}
		here.addTemplate(ctx, "gpus", here.gpus(1))
		leader := startReplica(ctx, "replica-0", scheduler)
		expectLeading(ctx, leader)
		next := startReplica(ctx, "replica-1", scheduler)
		for round, end := range []func(context.Context, *controlplane.Another){stop, kill, stop} {
			prefix := nth("round", round)
			pods := here.addPods(ctx, prefix, nodes*gpus, withTemplate("gpus"))
			Eventually(ctx, here.running).Should(ContainElement(HavePrefix(prefix)))
			end(ctx, leader)
			leader = next
			expectLeading(ctx, leader) // before there is another one that could
			next = startReplica(ctx, nth("replica", round+2), scheduler)
			here.expectRunning(ctx, pods...)
			here.deletePods(ctx)
		}
	})

	It("hand over between the plan for a gang and its next attempt", func(ctx SpecContext) {
		here.addPartitionable(ctx, "a", 2)
		here.addTemplate(ctx, "part", here.parts("whole", "half", "quarter"))
		leader := startReplica(ctx, "replica-0", scheduler)
		expectLeading(ctx, leader)
		startReplica(ctx, "replica-1", scheduler)
		here.addGroup(ctx, "gang", 4)
		pods := here.addPods(ctx, "pod", 4, inGroup("gang"), withTemplate("part"))
		if scheduler == controlplane.Dray {
			here.awaitPlan(ctx, pods)
		} else {
			here.expectUnschedulable(ctx, pods[0])
		}
		kill(ctx, leader)
		here.expectTogether(ctx, pods...)
	})

	It("with the plugin in the tree and with Dray follow each other, and keep what is allocated", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(8, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(8, "a100", "80Gi")...)
		here.addNode(ctx, "c", inventory.Shareable(inventory.GPU("big", "h100", 0, "80Gi")))
		here.addTemplate(ctx, "gpus", here.gpus(1, selecting(here.is("model", "a100"))))
		here.addTemplate(ctx, "many", here.gpus(7, selecting(here.is("model", "a100"))))
		here.addTemplate(ctx, "share", here.gpus(1, selecting(here.is("model", "h100")), consuming("10Gi")))
		here.addClaim(ctx, "shared", here.gpus(1, selecting(here.is("model", "a100"))))

		inTree := startReplica(ctx, "in-tree", controlplane.InTree)
		expectLeading(ctx, inTree)
		here.addPods(ctx, "old", 3, withTemplate("gpus"))
		here.addPods(ctx, "share-old", 2, withTemplate("share"))
		here.addPod(ctx, "sharing-old", withClaim("shared"))
		here.expectRunning(ctx, "old-0", "old-1", "old-2", "share-old-0", "share-old-1", "sharing-old")
		here.addPods(ctx, "many", 3, withTemplate("many")) // two nodes
		_, losers := here.expectSomeRunning(ctx, "many-0", "many-1", "many-2")
		Expect(losers).NotTo(BeEmpty())

		// The new one is ready before the old one ends.
		dray := startReplica(ctx, "dray", controlplane.Dray)
		here.change(ctx, inTree, dray, "upgraded")
		inTree = startReplica(ctx, "in-tree-again", controlplane.InTree)
		here.change(ctx, dray, inTree, "rolled-back")
		here.expectUnschedulable(ctx, losers...)
		for _, name := range []string{"old-0", "old-1", "old-2", "sharing-old", "sharing-upgraded", "sharing-rolled-back", "upgraded-0", "rolled-back-0"} {
			here.deletePod(ctx, name)
		}
		// There is room for one, whichever is tried first.
		Eventually(ctx, func(ctx SpecContext) ([]string, error) {
			var standings []string
			for _, name := range losers {
				standing, err := here.standing(ctx, name)
				if err != nil {
					return nil, err
				}
				standings = append(standings, standing)
			}
			return standings, nil
		}).Should(ContainElement(running))
	})
})

// startReplica starts a scheduler for pods that name none, which competes for the lease.
func startReplica(ctx context.Context, name string, plugin controlplane.Scheduler) *controlplane.Another {
	GinkgoHelper()
	return startAnother(ctx, controlplane.AnotherOptions{
		Name: name, Scheduler: plugin, Profile: corev1.DefaultSchedulerName, User: controlplane.SchedulerUser, Lease: lease,
	})
}

func startAnother(ctx context.Context, options controlplane.AnotherOptions) *controlplane.Another {
	GinkgoHelper()
	another, err := plane.StartAnother(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(another.Stop()).To(Succeed()) })
	return another
}

// stop has a replica end in order: it gives the lease back.
func stop(_ context.Context, replica *controlplane.Another) {
	GinkgoHelper()
	Expect(replica.Stop()).To(Succeed())
}

// kill ends a replica where it stands. Its lease lasts longer than anybody wants to wait.
func kill(ctx context.Context, replica *controlplane.Another) {
	GinkgoHelper()
	Expect(replica.Kill()).To(Succeed())
	Expect(client.CoordinationV1().Leases("kube-system").Delete(ctx, lease, metav1.DeleteOptions{})).To(Succeed())
}

var leads = regexp.MustCompile(`(?m)^leader_election_master_status\{name="` + lease + `"\} 1$`)

func expectLeading(ctx context.Context, replica *controlplane.Another) {
	GinkgoHelper()
	Eventually(ctx, replica.Metrics).Should(MatchRegexp(leads.String()))
}

// change ends one scheduler while pods arrive, and has another one go on: what is allocated
// stays as it is, and is used by new pods.
func (a *arena) change(ctx context.Context, from, to *controlplane.Another, name string) {
	GinkgoHelper()
	before := a.allocations(ctx)
	Expect(before).NotTo(BeEmpty())
	a.addPod(ctx, name+"-0", withTemplate("gpus"))
	Expect(from.Stop()).To(Succeed())
	a.addPod(ctx, "sharing-"+name, withClaim("shared"))
	a.addPods(ctx, "share-"+name, 2, withTemplate("share"))
	expectLeading(ctx, to)
	a.expectRunning(ctx, name+"-0", "sharing-"+name, nth("share-"+name, 0), nth("share-"+name, 1))
	after := a.allocations(ctx)
	for claim, devices := range before {
		Expect(after).To(HaveKeyWithValue(claim, devices))
	}
	Expect(a.claim(ctx, "shared").Status.ReservedFor).To(ContainElement(HaveField("Name", "sharing-"+name)))
}

// allocations are the results of all claims that hold devices, by the claim's name.
func (a *arena) allocations(ctx context.Context) map[string][]resourceapi.DeviceRequestAllocationResult {
	GinkgoHelper()
	claims, err := a.claimList(ctx)
	Expect(err).NotTo(HaveOccurred())
	results := make(map[string][]resourceapi.DeviceRequestAllocationResult)
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			results[claim.Name] = claim.Status.Allocation.Devices.Results
		}
	}
	return results
}

// expectSomeRunning waits until each of the pods runs or was refused, and tells them apart.
func (a *arena) expectSomeRunning(ctx context.Context, pods ...string) (winners, losers []string) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		winners, losers = nil, nil
		for _, name := range pods {
			switch standing, err := a.standing(ctx, name); {
			case err != nil:
				return err
			case standing == running:
				winners = append(winners, name)
			case standing == unschedulable:
				losers = append(losers, name)
			default:
				return fmt.Errorf("pod %s is %s", name, standing)
			}
		}
		return nil
	}).Should(Succeed())
	return winners, losers
}
