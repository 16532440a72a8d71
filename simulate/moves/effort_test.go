// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/dev/effort"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// TestEffort has what plans cost to find: on nodes with eight GPUs each, and on small clusters of many kinds.
func TestEffort(t *testing.T) {
	counts := make(effort.Counts)
	find := func(name string, state *simulate.State, q moves.Question) {
		t.Helper()
		counts.Of(t.Context(), name, func(ctx context.Context) {
			if _, err := moves.Find(ctx, state, q); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
	}
	free := func(name string, state *simulate.State, goal moves.Goal, q moves.Question) {
		t.Helper()
		counts.Of(t.Context(), name, func(ctx context.Context) {
			if _, err := moves.Free(ctx, state, goal, q); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
	}
	for goal, name := range []string{"free nodes", "free devices"} {
		for _, halves := range []bool{false, true} {
			state, nodes := crowded(t, 16, halves)
			free(name, state, moves.Goal(goal), moves.Question{Nodes: nodes, Sets: 20})
		}
	}
	for _, gpus := range []int{2, 4, 8} {
		for _, gang := range []bool{false, true} {
			state, nodes := crowded(t, 16, false)
			var wanted []*corev1.Pod
			for i := range 16 / gpus {
				wanted = append(wanted, gpuPod(fmt.Sprintf("wanted-%d", i), gpus))
			}
			find(fmt.Sprintf("find place for pods with %d GPUs, gang: %t", gpus, gang), state, moves.Question{Nodes: nodes, Wanted: wanted, Gang: gang, Sets: 50})
		}
	}
	for seed := range uint64(40) {
		m := newMixed(10_000 + seed)
		empty, sim, pods := m.filled(t)
		state, q := m.question(t, empty, sim, pods)
		switch seed % 4 {
		case 0:
			free("free nodes, mixed", state, moves.Nodes, q)
		case 1:
			free("free devices, mixed", state, moves.WholeDevices, q)
		default:
			q.Gang = seed%4 == 2
			find("find, mixed", state, q)
		}
	}
	counts.Compare(t)
}
