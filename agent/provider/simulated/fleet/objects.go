// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
)

// kubeletVersion is the kubelet version in the status of nodes.
const kubeletVersion = "v1.37.2"

// GPUs returns a kind of nodes with a number of GPUs each, all of one driver. Nodes are named by
// the prefix and a number.
func GPUs(prefix string, nodes int, driver string, gpus int) inventory.SimulatedNodes {
	kind := inventory.SimulatedNodes{Name: prefix + "{index}", Count: nodes}
	if gpus != 0 {
		kind.Groups = []inventory.SimulatedGroup{{
			Driver: driver, Name: "gpu", Count: gpus,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {StringValue: ptr.To("simulated")}, "uuid": {StringValue: ptr.To("{node}-{device}")},
			},
			Capacity: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("80Gi")},
		}}
	}
	return kind
}

// newNode returns the Node object to create.
func (f *Fleet) newNode(m *member, now metav1.Time) *corev1.Node {
	labels := map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	if m.kind.Region != "" {
		labels[corev1.LabelTopologyRegion] = m.kind.Region
	}
	if zone := m.kind.Zone(m.index); zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	maps.Copy(labels, m.kind.Labels)
	labels[corev1.LabelHostname], labels[LabelFleet] = m.name, f.options.Name
	room := m.kind.Room()
	m.mu.Lock()
	defer m.mu.Unlock()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: m.kind.Taints},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{m.readyCondition(now)},
			NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: kubeletVersion},
		},
	}
}

// takeOver sets labels and taints of a stored node to the wanted ones, and returns whether anything
// changed.
func takeOver(stored, want *corev1.Node) bool {
	before := stored.DeepCopy()
	maps.Copy(stored.Labels, want.Labels)
	stored.Spec.Taints = slices.DeleteFunc(stored.Spec.Taints, func(taint corev1.Taint) bool {
		return !strings.HasPrefix(taint.Key, "node.kubernetes.io/")
	})
	for _, taint := range want.Spec.Taints {
		if old := slices.IndexFunc(before.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) && other.Value == taint.Value }); old >= 0 {
			taint = before.Spec.Taints[old] // keep the time when it was added
		}
		stored.Spec.Taints = append(stored.Spec.Taints, taint)
	}
	return !equality.Semantic.DeepEqual(before.Labels, stored.Labels) || !sameTaints(before.Spec.Taints, stored.Spec.Taints)
}

// sameTaints compares taints regardless of their order.
func sameTaints(a, b []corev1.Taint) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(b, func(other corev1.Taint) bool { return equality.Semantic.DeepEqual(taint, other) })
	})
}

// setCondition replaces the condition of the same type. It keeps the time of the transition if the
// status is unchanged.
func setCondition(status *corev1.NodeStatus, condition corev1.NodeCondition) {
	for i := range status.Conditions {
		if old := &status.Conditions[i]; old.Type == condition.Type {
			if old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
			*old = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}
