// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
)

// A pod that is being deleted needs no other node: another one has been made in its place, except of a StatefulSet.
func TestDrainOfPodsBeingDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		owner   string // its kind, none if it is empty
		deleted bool
		moves   bool
	}{
		"a pod":                  {"", false, true},
		"a pod, deleted":         {"", true, false},
		"of a ReplicaSet":        {"ReplicaSet", false, true},
		"of a ReplicaSet, gone":  {"ReplicaSet", true, false},
		"of a Job, gone":         {"Job", true, false},
		"of a StatefulSet":       {"StatefulSet", false, true},
		"of a StatefulSet, gone": {"StatefulSet", true, true},
		"of a DaemonSet":         {"DaemonSet", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := gpuCluster("a") // no other node has room
			pod := gpuPods("one", 1)[0]
			pod.UID, pod.Spec.NodeName = types.UID("uid"), "a"
			if test.owner != "" {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: test.owner, Name: "owner", UID: "owner", Controller: ptr.To(true)}}
			}
			if test.deleted {
				pod.DeletionTimestamp = ptr.To(metav1.Now())
			}
			c.Pods = []*corev1.Pod{pod}
			state := open(t, c, simulate.Options{})
			result, err := state.Sim().Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "a")
			if err != nil {
				t.Fatal(err)
			}
			if moves := result.Unfit == 1; moves != test.moves {
				t.Errorf("drained: %t placed elsewhere, want %t: %+v", moves, test.moves, result)
			}
			departures, err := state.Drainable(t.Context(), simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
			if err != nil || len(departures) != 1 || departures[0].Possible == test.moves {
				t.Errorf("may the node go: %+v, %v, want %t", departures, err, !test.moves)
			}
		})
	}
}
