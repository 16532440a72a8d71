// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/dray-project/dray/nodefit"
)

// cordoned is the reason for a cordoned node.
var cordoned = because("the node is cordoned (spec.unschedulable)")

// unfit returns why the workload cannot run on the node, regardless of devices and resources. It is
// empty if it can.
func unfit(w Workload, claims []*resourceapi.ResourceClaim, node *corev1.Node) (reason, error) {
	if why := unfitClaims(claims, node); why != "" {
		return because(why), nil
	}
	if w.Pod == nil {
		if node.Spec.Unschedulable {
			return cordoned, nil
		}
		return reason{}, nil
	}
	if why := untolerated(w.Pod, node); !why.empty() {
		return why, nil
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(w.Pod).Match(node)
	if err != nil {
		return reason{}, fmt.Errorf("spec.affinity.nodeAffinity: %w", err)
	}
	if !matches {
		return mismatch(w.Pod, node), nil
	}
	return reason{}, nil
}

// mismatch returns what the pod's node selector or node affinity requires, and what the node has.
func mismatch(pod *corev1.Pod, node *corev1.Node) reason {
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if wanted := pod.Spec.NodeSelector[key]; node.Labels[key] != wanted {
			return reason{lacks: fmt.Sprintf("the pod's node selector wants label %s=%s", key, wanted), has: labelOf(node, key)}
		}
	}
	mismatched := because("the pod's node affinity does not match")
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return mismatched
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if terms == nil || len(terms.NodeSelectorTerms) != 1 {
		return mismatched
	}
	term := terms.NodeSelectorTerms[0]
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 1 {
		return because("the pod is for node " + strings.Join(term.MatchFields[0].Values, ", "))
	}
	for _, wanted := range term.MatchExpressions {
		alone := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{wanted}}}}
		if selector, err := nodeaffinity.NewNodeSelector(alone); err == nil && !selector.Match(node) {
			return reason{
				lacks: "the pod's node affinity wants label " + strings.TrimSpace(fmt.Sprintf("%s %s %s", wanted.Key, wanted.Operator, strings.Join(wanted.Values, ", "))),
				has:   labelOf(node, wanted.Key),
			}
		}
	}
	return mismatched
}

// labelOf returns a phrase with the node's value of a label. It is empty for the host name, since
// that differs on all nodes anyway.
func labelOf(node *corev1.Node, key string) string {
	value, found := node.Labels[key]
	switch {
	case !found:
		return "no such label"
	case key == corev1.LabelHostname:
		return "another one"
	}
	return key + "=" + value
}

// unfitClaims checks claims that are already allocated, since their devices may not be reachable
// from the node.
func unfitClaims(claims []*resourceapi.ResourceClaim, node *corev1.Node) string {
	for _, claim := range claims {
		if claim.Status.Allocation == nil || claim.Status.Allocation.NodeSelector == nil {
			continue
		}
		selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
		if err != nil {
			return fmt.Sprintf("claim %s: status.allocation.nodeSelector: %v", claim.Name, err)
		}
		if !selector.Match(node) {
			return fmt.Sprintf("claim %s is allocated already, with %s, which the node does not reach", claim.Name, someDevices(claim))
		}
	}
	return ""
}

// someDevices returns the names of some devices of an allocated claim.
func someDevices(claim *resourceapi.ResourceClaim) string {
	const few = 3
	var names []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		names = append(names, result.Pool+"/"+result.Device)
	}
	switch more := len(names) - few; {
	case more == 1:
		return strings.Join(names[:few], ", ") + " and 1 other device"
	case more > 1:
		return fmt.Sprintf("%s and %d other devices", strings.Join(names[:few], ", "), more)
	}
	return strings.Join(names, ", ")
}

func untolerated(pod *corev1.Pod, node *corev1.Node) reason {
	switch taint := nodefit.Untolerated(pod, node); {
	case taint == nil:
		return reason{}
	case nodefit.IsCordon(taint):
		return cordoned
	default:
		const text = "the pod does not tolerate node taint "
		valueless := corev1.Taint{Key: taint.Key, Effect: taint.Effect}
		return reason{lacks: text + valueless.ToString(), has: taint.ToString(), alone: text + taint.ToString()}
	}
}
