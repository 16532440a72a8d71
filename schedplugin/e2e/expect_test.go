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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where a pod stands, as standing returns it.
const (
	running       = "running"
	unschedulable = "unschedulable"
	gone          = "gone"
)

// standing tells how far a pod is.
func (a *arena) standing(ctx context.Context, name string) (string, error) {
	pod, err := client.CoreV1().Pods(a.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case err != nil:
		return "", err
	case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
		return running, nil
	case pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, saysUnschedulable):
		return unschedulable, nil
	}
	return string(pod.Status.Phase), nil
}

func saysUnschedulable(condition corev1.PodCondition) bool {
	return condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
}

func (a *arena) expect(ctx context.Context, standing string, pods []string) {
	GinkgoHelper()
	for _, name := range pods {
		Eventually(ctx, a.standing).WithArguments(name).Should(Equal(standing), "pod "+name)
	}
}

func (a *arena) expectRunning(ctx context.Context, pods ...string) {
	GinkgoHelper()
	a.expect(ctx, running, pods)
}

// expectUnschedulable waits until the scheduler has looked at the pods and refused.
func (a *arena) expectUnschedulable(ctx context.Context, pods ...string) {
	GinkgoHelper()
	a.expect(ctx, unschedulable, pods)
}

func (a *arena) expectGone(ctx context.Context, pods ...string) {
	GinkgoHelper()
	a.expect(ctx, gone, pods)
}

// expectOneRunning waits until one of the pods runs and the others were refused, and
// returns the winner and the losers.
func (a *arena) expectOneRunning(ctx context.Context, pods ...string) (winner string, losers []string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		winner, losers = "", nil
		for _, name := range pods {
			switch standing, err := a.standing(ctx, name); {
			case err == nil && standing == running:
				g.Expect(winner).To(BeEmpty(), "%s runs as well", name)
				winner = name
			case err == nil && standing == unschedulable:
				losers = append(losers, name)
			}
		}
		g.Expect(winner).NotTo(BeEmpty())
		g.Expect(losers).To(HaveLen(len(pods) - 1))
	}).Should(Succeed())
	return winner, losers
}

// runningOf are those of the pods that run.
func (a *arena) runningOf(ctx context.Context, pods []string) []string {
	GinkgoHelper()
	return slices.DeleteFunc(slices.Clone(pods), func(name string) bool {
		standing, err := a.standing(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		return standing != running
	})
}

// nodeOf is the node of a pod without the arena's name.
func (a *arena) nodeOf(ctx context.Context, name string) string {
	GinkgoHelper()
	pod, err := client.CoreV1().Pods(a.namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return pod.Spec.NodeName
}

// devicesOf are "request: pool/device" of a claim, the pool without the arena's name.
func (a *arena) devicesOf(ctx context.Context, claim string) []string {
	GinkgoHelper()
	var devices []string
	for _, result := range a.resultsOf(ctx, claim) {
		devices = append(devices, fmt.Sprintf("%s: %s/%s", result.Request, result.Pool[len(a.namespace)+1:], result.Device))
	}
	return devices
}

func (a *arena) resultsOf(ctx context.Context, claim string) []resourceapi.DeviceRequestAllocationResult {
	GinkgoHelper()
	allocated := a.claim(ctx, claim)
	Expect(allocated.Status.Allocation).NotTo(BeNil(), "claim %s is not allocated", claim)
	return allocated.Status.Allocation.Devices.Results
}

func (a *arena) claim(ctx context.Context, name string) *resourceapi.ResourceClaim {
	GinkgoHelper()
	claim, err := client.ResourceV1().ResourceClaims(a.namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return claim
}

// claimOf is the name of the claim made for a pod from its only template.
func (a *arena) claimOf(ctx context.Context, pod string) string {
	GinkgoHelper()
	found, err := client.CoreV1().Pods(a.namespace).Get(ctx, pod, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(found.Status.ResourceClaimStatuses).To(HaveLen(1))
	Expect(found.Status.ResourceClaimStatuses[0].ResourceClaimName).NotTo(BeNil())
	return *found.Status.ResourceClaimStatuses[0].ResourceClaimName
}
