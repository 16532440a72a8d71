// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
)

// Pods that met an error, or a search that was given up, are listed until an attempt ends otherwise or they
// do not wait any more. Any change of slices may help them, as with SliceRemovalHelps.
func TestPodsHelpedByUse(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	waits := func(types.NamespacedName, types.UID) bool { return true }
	for _, test := range []struct {
		name    string
		refusal Refusal
		gaveUp  bool
		want    int
		spoiled bool
	}{
		{"error", Refusal{Reason: "no such key"}, false, 1, true},
		{"search given up", Refusal{Reason: Undecided}, true, 1, true},
		{"devices in use", Refusal{Reason: "in use", Example: &allocator.Unsatisfiable{}}, false, 0, false},
		{"set aside", Refusal{Reason: SetAside}, false, 0, false},
		{"short of CPU", Refusal{Reason: Short + "Insufficient cpu"}, false, 0, false},
		{"not explained", Refusal{Reason: Unexplained}, false, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := NewEndings()
			a.End(pod, Attempt{Refusals: []*Refusal{&test.refusal}, GaveUp: test.gaveUp})
			if got := a.PodsHelpedByUse(waits); len(got) != test.want {
				t.Errorf("listed %v, want %d", got, test.want)
			}
			if last, _ := a.Of(pod.UID); last.SliceRemovalHelps != test.spoiled {
				t.Errorf("it ended %+v, want spoiled %v", last, test.spoiled)
			}
			a.PodsHelpedByUse(func(types.NamespacedName, types.UID) bool { return false })
			if got := a.PodsHelpedByUse(waits); len(got) > 0 {
				t.Errorf("listed %v, and it does not wait", got)
			}
			a.End(pod, Attempt{Refusals: []*Refusal{&test.refusal}, GaveUp: test.gaveUp})
			if a.End(pod, Attempt{}); len(a.PodsHelpedByUse(waits)) > 0 {
				t.Error("listed after an attempt that ended otherwise")
			}
		})
	}
}

// For each way to give up a search, the Event says that it is not decided.
func TestSummaryOfWhatIsNotDecided(t *testing.T) {
	for reason, want := range map[string]string{
		Undecided:   "It is not decided whether the pod gets its devices. The search is repeated with larger limits.\n1 node (a): " + Undecided,
		Timeout:     "It is not decided whether the pod gets its devices. The search is repeated with larger limits.\n1 node (a): " + Timeout,
		Unexplained: "the pod does not get its devices.\n1 node (a): " + Unexplained,
	} {
		if got := summarize("the pod", []*Refusal{{Reason: reason, Nodes: []string{"a"}}}); got != want+guide {
			t.Errorf("%s: %s", reason, got)
		}
	}
}
