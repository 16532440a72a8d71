// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// crowded is a cluster of nodes with eight GPUs each, of which pods of one, two and four have about two thirds, on nodes at random. So
// are the halves of the GPUs, with pods of halves only.
func crowded(tb testing.TB, nodes int, halves bool) (*simulate.State, []string) {
	gpus := make([]int, nodes)
	for i := range gpus {
		gpus[i] = 8
	}
	c := gpuCluster(gpus...)
	if halves {
		divide(&c)
	}
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 11))
	sim := state.Sim()
	for i := range nodes * 4 {
		on, err := state.Node(fmt.Sprintf("node-%d", random.IntN(nodes)))
		if err != nil {
			tb.Fatal(err)
		}
		pod := gpuPod(fmt.Sprintf("runs-%d", i), []int{1, 1, 2, 4}[random.IntN(4)])
		if halves {
			pod = halfPod(pod.Name)
		}
		if _, err := sim.Put(tb.Context(), pod, on); err != nil {
			tb.Fatal(err)
		}
	}
	if halves { // every other pod goes, so that halves are left
		for i := range nodes * 2 {
			if pod := halfPod(fmt.Sprintf("runs-%d", 2*i)); i%3 > 0 {
				if err := sim.Evict(pod); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
	return sim.State(), names(&c)
}

// On a large cluster the first plan is near what can be free at most.
func TestFreeOnManyNodes(t *testing.T) {
	state, nodes := crowded(t, 60, false)
	plan, err := moves.Free(t.Context(), state, moves.Nodes, moves.Question{Nodes: nodes, Sets: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of at most %d nodes are free, %d before, after %d moves", plan.After, plan.Most, plan.Before, len(plan.Steps))
	if plan.After <= plan.Before || plan.After > plan.Most || plan.Most-plan.After > 3 {
		t.Errorf("%d of at most %d nodes are free, %d before", plan.After, plan.Most, plan.Before)
	}
}

// BenchmarkMoves measures questions about a thousand nodes with eight GPUs each, after Open.
func BenchmarkMoves(b *testing.B) {
	for _, goal := range []moves.Goal{moves.Nodes, moves.WholeDevices} {
		b.Run([]string{"nodes", "devices"}[goal], func(b *testing.B) {
			state, nodes := crowded(b, 1000, goal == moves.WholeDevices)
			for b.Loop() {
				plan, err := moves.Free(b.Context(), state, goal, moves.Question{Nodes: nodes})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(plan.Before), "before")
				b.ReportMetric(float64(plan.After), "after")
				b.ReportMetric(float64(plan.Most), "most")
				b.ReportMetric(float64(len(plan.Steps)), "steps")
			}
		})
	}
	b.Run("for", func(b *testing.B) {
		state, nodes := crowded(b, 1000, false)
		wanted := make([]*corev1.Pod, 18) // 16 nodes are empty
		for i := range wanted {
			wanted[i] = gpuPod(fmt.Sprintf("wanted-%d", i), 8)
		}
		for b.Loop() {
			plan, err := moves.Find(b.Context(), state, moves.Question{Nodes: nodes, Wanted: wanted})
			if err != nil || !plan.Possible {
				b.Fatal(plan, err)
			}
			b.ReportMetric(plan.Cost, "cost")
			b.ReportMetric(plan.Bound, "bound")
		}
	})
}
