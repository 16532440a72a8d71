// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// pass tells Kubernetes how a pod is that runs, and how its devices are. The lock is held
// until it is told, so that what is older than the pod's end is not told after it.
func (c *claimed) pass(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported[pod.UID] = pod
	c.notify(c.withHealth(pod))
}

// withHealth adds the health of its devices to the status of a pod. The names of its claims
// are in the status that Kubernetes has.
func (c *claimed) withHealth(pod *corev1.Pod) *corev1.Pod {
	stored, err := c.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || stored.UID != pod.UID {
		return pod // nobody wants to know
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

// followHealth tells of pods again when the health of devices changes, until ctx ends.
func (c *claimed) followHealth(ctx context.Context) {
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

// forgetReports forgets what is known of pods that are gone.
func (c *claimed) forgetReports() {
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
