// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTakeOver tells whether a node has to be written. (A fake client stores labels with the status, too, which an API server does not.)
func TestTakeOver(t *testing.T) {
	node := func(labels map[string]string, taints ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		return n
	}
	want := node(map[string]string{"rack": "7"}, "gpu")
	for name, test := range map[string]struct {
		stored  *corev1.Node
		changes bool
		mine    string
	}{
		"as it should be":    {node(map[string]string{"rack": "7", "mine": "stays"}, "gpu"), false, "stays"},
		"another label":      {node(map[string]string{"rack": "8", "mine": "stays"}, "gpu"), true, "stays"},
		"no label":           {node(map[string]string{}, "gpu"), true, ""},
		"another taint":      {node(map[string]string{"rack": "7"}, "old"), true, ""},
		"one taint too many": {node(map[string]string{"rack": "7"}, "old", "gpu"), true, ""},
		"a taint of a node":  {node(map[string]string{"rack": "7"}, "gpu", "node.kubernetes.io/not-ready"), false, ""},
	} {
		if got := takeOver(test.stored, want); got != test.changes || test.stored.Labels["rack"] != "7" || test.stored.Labels["mine"] != test.mine {
			t.Errorf("%s: changes %t, want %t; labels %v", name, got, test.changes, test.stored.Labels)
		}
		if found := test.stored.Spec.Taints; !sameTaints(want.Spec.Taints, found) && len(found) < 2 {
			t.Errorf("%s: taints %v", name, found)
		}
	}
}

// TestSetCondition: a condition is replaced by one of its type, and keeps the time of its transition while its status is the same.
func TestSetCondition(t *testing.T) {
	before, now := metav1.Unix(1, 0), metav1.Unix(2, 0)
	for _, test := range []struct {
		status corev1.ConditionStatus
		want   metav1.Time
	}{{corev1.ConditionTrue, before}, {corev1.ConditionFalse, now}} {
		status := &corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, LastTransitionTime: before},
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: before, Message: "old"},
		}}
		setCondition(status, corev1.NodeCondition{Type: corev1.NodeReady, Status: test.status, LastTransitionTime: now, Message: "new"})
		setCondition(status, corev1.NodeCondition{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, LastTransitionTime: now})
		got := status.Conditions
		if len(got) != 3 || got[0].LastTransitionTime != before || got[1].Status != test.status || got[1].Message != "new" || got[1].LastTransitionTime != test.want || got[2].Type != corev1.NodePIDPressure {
			t.Errorf("%s: conditions %v", test.status, got)
		}
	}
}
