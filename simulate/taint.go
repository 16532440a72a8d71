// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/podclaims"
)

// taintRules are the taint rules of the input, sorted by name. Nil has none. Worlds with the same rules share them.
type taintRules struct {
	list []*resourceapi.DeviceTaintRule
}

// applied returns slices with the taints of the rules. Slices without such devices are not copied.
func (r *taintRules) applied(published []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if r == nil {
		return published
	}
	return podclaims.ApplyTaintRules(published, r.list)
}

// removed returns slices as they were before the rules were applied.
func (r *taintRules) removed(patched []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if r == nil {
		return patched
	}
	list := slices.Clone(patched)
	for i, slice := range list {
		before := slice.DeepCopy()
		for d := range before.Spec.Devices {
			before.Spec.Devices[d].Taints = nil
		}
		added := r.applied([]*resourceapi.ResourceSlice{before})[0]
		if added == before {
			continue // no rule selects the slice
		}
		for d := range before.Spec.Devices {
			all := slice.Spec.Devices[d].Taints // those of the rules come last
			before.Spec.Devices[d].Taints = slices.Clip(all[:len(all)-len(added.Spec.Devices[d].Taints)])
		}
		list[i] = before
	}
	return list
}

// starting are taints of nodes that are not ready yet, by key or, ending in a slash, by the beginning of the key.
// Controllers of Kubernetes, cloud providers and autoscalers set them, and remove them.
var starting = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable, "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered",
	"startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/",
}

// passing are taints that say in what state a node is, which new nodes are not in.
var passing = append(slices.Clip(starting),
	corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure,
	corev1.TaintNodePIDPressure, corev1.TaintNodeOutOfService, "node.cloudprovider.kubernetes.io/shutdown", "karpenter.sh/disrupted",
	"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "status-taint.cluster-autoscaler.kubernetes.io/",
)

// asNew returns a node as it was when it was new: not cordoned, and without passing taints.
func asNew(node *corev1.Node) *corev1.Node {
	if node = without(node, passing); node.Spec.Unschedulable {
		node = node.DeepCopy()
		node.Spec.Unschedulable = false
	}
	return node
}

// asStarted returns a node as it will be once it has started.
func asStarted(node *corev1.Node) *corev1.Node { return without(node, starting) }

// without returns a node without some taints. A node that has none of them is not copied.
func without(node *corev1.Node, taints []string) *corev1.Node {
	has := func(taint corev1.Taint) bool {
		return slices.ContainsFunc(taints, func(key string) bool {
			return taint.Key == key || strings.HasSuffix(key, "/") && strings.HasPrefix(taint.Key, key)
		})
	}
	if !slices.ContainsFunc(node.Spec.Taints, has) {
		return node
	}
	node = node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, has)
	return node
}
