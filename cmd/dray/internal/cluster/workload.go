// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/dray-project/dray/cmd/dray/internal/workload"
)

// Workload is what is placed as a unit: a pod with its claims, or a claim that no pending pod uses.
// Exactly one field is set.
type Workload struct {
	Pod   *corev1.Pod
	Claim types.NamespacedName
}

// Key returns namespace and name of the pod or claim.
func (w Workload) Key() types.NamespacedName {
	if w.Pod != nil {
		return keyOf(w.Pod)
	}
	return w.Claim
}

// String returns "namespace/name" for a pod and "claim namespace/name" for a claim.
func (w Workload) String() string {
	if w.Pod != nil {
		return w.Key().String()
	}
	return "claim " + w.Key().String()
}

// Workloads returns what must be placed, in order. First come pending pods with claims or extended
// resources, in the order of kube-scheduler's queue: priority, creation time, order of reading.
// Then come unallocated claims that none of these pods uses.
func (c *Cluster) Workloads() []Workload {
	var pods []*corev1.Pod
	used := make(map[types.NamespacedName]bool)
	for _, pod := range c.pods {
		if !Pending(pod) || !usesDevices(pod) {
			continue
		}
		pods = append(pods, pod)
		for _, podClaim := range pod.Spec.ResourceClaims {
			used[c.claims.Key(pod, podClaim)] = true
		}
	}
	slices.SortStableFunc(pods, queueOrder)
	var all []Workload
	for _, pod := range pods {
		all = append(all, Workload{Pod: pod})
	}
	for _, key := range c.order {
		if claim := c.claims.Claim(key); !used[key] && unallocated(claim) {
			all = append(all, Workload{Claim: key})
		}
	}
	return all
}

// Opaque returns the objects that use claims, and whose pods are unknown.
func (c *Cluster) Opaque() []types.NamespacedName {
	keys := make([]types.NamespacedName, len(c.objects.Opaque))
	for i, object := range c.objects.Opaque {
		keys[i] = keyOf(object)
	}
	return keys
}

// Controllers returns the objects that make pods.
func (c *Cluster) Controllers() []*workload.Controller { return c.objects.Controllers }

// Pod returns the pod of that name, pending or not; nil if there is none.
func (c *Cluster) Pod(key types.NamespacedName) *corev1.Pod {
	return c.podByKey[key]
}

// Pending reports whether a pod waits to be scheduled.
func Pending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil &&
		(pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending)
}

// Idle counts the pending pods that use no devices.
func (c *Cluster) Idle() int {
	n := 0
	for _, pod := range c.pods {
		if Pending(pod) && !usesDevices(pod) {
			n++
		}
	}
	return n
}

// UsesDevices reports whether a pod has claims or extended resources.
func UsesDevices(pod *corev1.Pod) bool { return usesDevices(pod) }

func unallocated(claim *resourceapi.ResourceClaim) bool {
	return claim.Status.Allocation == nil && claim.DeletionTimestamp == nil
}

func queueOrder(a, b *corev1.Pod) int {
	byPriority := cmp.Compare(schedulinghelpers.PodPriority(b), schedulinghelpers.PodPriority(a))
	return cmp.Or(byPriority, a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
}

// PodKeys returns the names of all pods.
func (c *Cluster) PodKeys() []types.NamespacedName {
	keys := make([]types.NamespacedName, len(c.pods))
	for i, pod := range c.pods {
		keys[i] = keyOf(pod)
	}
	return keys
}

// ClaimKeys returns the names of all claims, including those that will be generated for pending
// pods.
func (c *Cluster) ClaimKeys() []types.NamespacedName {
	keys := slices.Clone(c.order)
	known := make(map[types.NamespacedName]bool, len(keys))
	for _, key := range keys {
		known[key] = true
	}
	for _, w := range c.Workloads() {
		if w.Pod == nil {
			continue
		}
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			if key := c.claims.Key(w.Pod, podClaim); !known[key] {
				known[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Used returns the claims that a pod uses, as workloads.
func (c *Cluster) Used(w Workload) []Workload {
	var used []Workload
	if w.Pod != nil {
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			used = append(used, Workload{Claim: c.claims.Key(w.Pod, podClaim)})
		}
	}
	return used
}

// ClaimsOf returns those claims of a workload that exist.
func (c *Cluster) ClaimsOf(w Workload) []*resourceapi.ResourceClaim {
	keys := []types.NamespacedName{w.Claim}
	if w.Pod != nil {
		keys = nil
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			keys = append(keys, c.claims.Key(w.Pod, podClaim))
		}
	}
	var claims []*resourceapi.ResourceClaim
	for _, key := range keys {
		if claim := c.claims.Claim(key); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims
}
