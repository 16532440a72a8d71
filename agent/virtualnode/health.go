// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// reportRunning reports the status of a running pod, with the health of its devices. It holds the
// lock, so that an older status is not reported after the pod's end.
func (c *claimProvider) reportRunning(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported[pod.UID] = pod
	c.notify(c.withHealth(pod))
}

// withHealth returns the pod with the health of its devices in the status. It needs the stored pod,
// whose status has the names of the claims.
func (c *claimProvider) withHealth(pod *corev1.Pod) *corev1.Pod {
	stored, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || stored.UID != pod.UID {
		return pod // the pod was deleted, so that nobody reads its status
	}
	health := c.preparer.ResourceStatus(stored)
	if len(health) == 0 {
		return pod
	}
	out := pod.DeepCopy()
	for i := range out.Status.ContainerStatuses {
		status := &out.Status.ContainerStatuses[i]
		status.AllocatedResourcesStatus = health[status.Name]
	}
	return out
}

// followHealth reports running pods again when the health of devices changes, until ctx ends.
func (c *claimProvider) followHealth(ctx context.Context) {
	for {
		changed := c.preparer.HealthChanged()
		c.mu.Lock()
		for _, pod := range c.reported {
			c.notify(c.withHealth(pod))
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// forgetDeleted removes refusals and reports of pods that were deleted.
func (c *claimProvider) forgetDeleted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.refusals {
		if stored, err := c.pods.List(labels.Everything()); err == nil && !slices.ContainsFunc(stored, func(pod *corev1.Pod) bool { return pod.UID == uid }) {
			delete(c.refusals, uid)
		}
	}
	for uid, pod := range c.reported {
		if stored, err := c.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || stored.UID != uid {
			delete(c.reported, uid)
		}
	}
}
