// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/internal/dev/invariant"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// number is the value of an environment variable, or another one if it is not set.
func number(variable string, otherwise int) int {
	GinkgoHelper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	count, err := strconv.Atoi(text)
	Expect(err).NotTo(HaveOccurred(), "%s is a number", variable)
	return count
}

var _ = Describe("While the cluster changes", func() {
	It("slices can be deleted and made again", func(ctx SpecContext) {
		const nodes, gpus = 10, 30
		var published []*resourceapi.ResourceSlice
		for i := range nodes {
			node := here.addNode(ctx, nth("n", i))
			published = append(published, inventory.Slice(here.driver, node, inventory.GPUs(gpus, "a100", "80Gi")...))
		}
		here.addSlices(ctx, published...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		added := make(chan error, 1)
		go func() { added <- here.crowdIn(ctx, nodes*gpus) }()
		rounds := 0
		for ; rounds < 3 || len(added) == 0; rounds++ {
			for _, slice := range published {
				Expect(client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{})).To(Succeed())
				_, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		Expect(<-added).To(Succeed())
		Eventually(ctx, here.running).WithTimeout(crowdPatience).Should(HaveLen(nodes * gpus))
		AddReportEntry("rounds of deleted and recreated slices", rounds)
	}, SpecTimeout(2*crowdPatience))

	It("a claim in flight can be deleted by force", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(2, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, toStatus, func() { here.addPod(ctx, "pod", withTemplate("gpus")) }, func() {
			here.deleteByForce(ctx, here.claimOf(ctx, "pod"))
			here.addPod(ctx, "next", withTemplate("gpus"))
			here.expectRunning(ctx, "next")
		})
		here.expectRunning(ctx, "pod")
	})

	It("claims in use can be deleted by force, which frees their devices", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(8, "a100", "80Gi")...)
		for i := range 8 {
			here.addClaim(ctx, nth("old", i), here.gpus(1))
			here.addPod(ctx, nth("holder", i), withClaim(nth("old", i)))
		}
		for i := range 8 {
			here.expectRunning(ctx, nth("holder", i))
		}
		here.addTemplate(ctx, "gpus", here.gpus(1))
		waiting := here.addPods(ctx, "waiting", 8, withTemplate("gpus"))
		here.expectUnschedulable(ctx, waiting...)
		for i := range 8 {
			here.deleteByForce(ctx, nth("old", i))
		}
		here.expectRunning(ctx, waiting...)
	})

	DescribeTable("a node can be deleted before its pod is there", func(ctx SpecContext, stage faults.Fault) {
		node := here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.meanwhile(ctx, stage, func() { here.addPod(ctx, "first", withTemplate("gpus")) }, func() {
			Expect(client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})).To(Succeed())
			other := here.addNode(ctx, "b", inventory.GPUs(1, "a100", "80Gi")...)
			here.addPod(ctx, "second", withTemplate("gpus"))
			here.expectRunning(ctx, "second")
			Expect(here.nodeOf(ctx, "second")).To(Equal(other))
		})
		// The API server binds pods to nodes that do not exist. What it should have been is
		// for the garbage collector of pods, and for whoever made the pod, to see to.
		Eventually(ctx, here.nodeOf).WithArguments("first").Should(Equal(node))
		Expect(client.CoreV1().Pods(here.namespace).Delete(ctx, "first", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})).To(Succeed())
		here.expectGone(ctx, "first")
		here.addPod(ctx, "third", withTemplate("gpus"))
		here.expectUnschedulable(ctx, "third")
		_, err := client.CoreV1().Nodes().Create(ctx, inventory.Node(node, cpus), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		here.expectRunning(ctx, "third")
		Expect(here.nodeOf(ctx, "third")).To(Equal(node))
	},
		Entry("when its claim is to get the finalizer", toFinalizers),
		Entry("when its claim is to be allocated", toStatus),
		Entry("when it is to be bound", toBindings),
	)

	It("many claims can arrive at once", func(ctx SpecContext) {
		const gpus = 8
		claims := number("CLAIMS", 300)
		nodes := number("NODES", (claims+gpus-1)/gpus)
		here.addNodes(ctx, nodes, gpus)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		Expect(plane.StopScheduler()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if CurrentSpecReport().Failed() {
				_ = plane.StartScheduler(ctx) // it may run
			}
		})
		Expect(here.crowdIn(ctx, claims)).To(Succeed())
		Eventually(ctx, here.claims).WithTimeout(crowdPatience).Should(HaveLen(claims))
		start := time.Now()
		Expect(plane.StartScheduler(ctx)).To(Succeed())
		Eventually(ctx, here.running).WithTimeout(6 * crowdPatience).WithPolling(time.Second).Should(HaveLen(claims))
		took := time.Since(start)
		held, err := here.claimList(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(invariant.Check(nil, held)).To(BeEmpty())
		Expect(here.holders(ctx)).To(HaveLen(claims))
		AddReportEntry("claims at once", fmt.Sprintf("%d pods with claims run on %d nodes after %v, %.0f a second; the scheduler took %.1f s of CPU and %.0f MiB",
			claims, nodes, took.Round(time.Second/10), float64(claims)/took.Seconds(), metric(ctx, "process_cpu_seconds_total"), metric(ctx, "process_resident_memory_bytes")/(1<<20)))
	}, SpecTimeout(12*crowdPatience))
})

// metric is the value of one of the scheduler's metrics without labels.
func metric(ctx context.Context, name string) float64 {
	GinkgoHelper()
	text, err := plane.SchedulerMetrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			Expect(err).NotTo(HaveOccurred())
			return number
		}
	}
	Fail("there is no metric " + name)
	return 0
}

// nth numbers names.
func nth(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }

// statusOf is the code of an answer of the API server, or 0.
func statusOf(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// addNodes adds many nodes with a pool of devices each.
func (a *arena) addNodes(ctx context.Context, nodes, gpus int) {
	GinkgoHelper()
	mine := map[string]string{"example.com/arena": a.namespace}
	all := metav1.ListOptions{LabelSelector: labels.Set(mine).String()}
	DeferCleanup(func(ctx SpecContext) {
		Eventually(ctx, func() error {
			return errors.Join(
				client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
				client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			)
		}).WithTimeout(crowdPatience).Should(Succeed())
	})
	Expect(parallel(ctx, nodes, func(i int) error {
		node := inventory.Node(a.name(nth("n", i)), cpus)
		maps.Copy(node.Labels, mine)
		slice := inventory.Slice(a.driver, node.Name, inventory.GPUs(gpus, "a100", "80Gi")...)
		slice.Labels = mine
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		_, more := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		return errors.Join(err, more)
	})).To(Succeed())
}

// crowdIn adds pods with claims from the template gpus, many at a time.
func (a *arena) crowdIn(ctx context.Context, count int) error {
	return parallel(ctx, count, func(i int) error {
		pod := inventory.Pod(nth("crowd", i))
		withTemplate("gpus")(pod)
		_, err := client.CoreV1().Pods(a.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// parallel does something count times, several at a time, and returns all errors.
func parallel(ctx context.Context, count int, do func(int) error) error {
	failures := make([]error, count)
	workqueue.ParallelizeUntil(ctx, 16, count, func(i int) { failures[i] = do(i) })
	return errors.Join(append(failures, context.Cause(ctx))...)
}

// running are the pods that run.
func (a *arena) running(ctx context.Context) ([]string, error) {
	pods, err := client.CoreV1().Pods(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names, nil
}

func (a *arena) claimList(ctx context.Context) ([]*resourceapi.ResourceClaim, error) {
	list, err := client.ResourceV1().ResourceClaims(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var claims []*resourceapi.ResourceClaim
	for i := range list.Items {
		claims = append(claims, &list.Items[i])
	}
	return claims, nil
}

// deleteByForce removes a claim, whoever uses it.
func (a *arena) deleteByForce(ctx context.Context, name string) {
	GinkgoHelper()
	claims := client.ResourceV1().ResourceClaims(a.namespace)
	uid := a.claim(ctx, name).UID
	Expect(claims.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	Eventually(ctx, func() error {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && claim.UID != uid {
			return nil
		}
		if err != nil {
			return err
		}
		claim.Finalizers = nil
		if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return fmt.Errorf("claim %s is still there", name)
	}).Should(Succeed())
}
