// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

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

// BenchmarkBound counts how many plans are proven to cost least, without looking at sets of pods: for pods with all eight GPUs of a node, on 30 nodes that are
// mostly in use by pods of other sizes, and on those where 25 such pods were to be placed before the others. They ask for eight, also with a constraint on
// all claims, or for all devices.
func BenchmarkBound(b *testing.B) {
	for _, claims := range []string{"count", "constraint", "all"} {
		for _, whole := range []int{0, 25} {
			b.Run(fmt.Sprintf("claims=%s/whole=%d", claims, whole), func(b *testing.B) {
				var states []*simulate.State
				c := gpuCluster(slices.Repeat([]int{8}, 30)...)
				switch last := c.Templates[len(c.Templates)-1].Spec.Spec.Devices.Requests[0].Exactly; claims {
				case "constraint":
					constrain(&c)
				case "all":
					last.AllocationMode, last.Count = resourceapi.DeviceAllocationModeAll, 0
				}
				for seed := range uint64(5) {
					states = append(states, filledAtRandom(b, c, whole, seed))
				}
				for b.Loop() {
					proven, bound, cost := 0.0, 0.0, 0.0
					for i := range 6 * len(states) {
						q := moves.Question{Nodes: names(&c), Gang: i%2 == 0, Sets: 1}
						for k := range 1 + i%3 {
							q.Wanted = append(q.Wanted, gpuPod(fmt.Sprintf("wanted-%d", k), 8))
						}
						plan, err := moves.Find(b.Context(), states[i/6], q)
						if err != nil {
							b.Fatal(err)
						}
						if plan.Exact() {
							proven++
						}
						if plan.Possible {
							bound, cost = bound+plan.Bound, cost+plan.Cost
						}
					}
					b.ReportMetric(proven, "proven")
					b.ReportMetric(bound, "bound")
					b.ReportMetric(cost, "cost")
				}
			})
		}
	}
}

// filledAtRandom puts so many pods with eight GPUs on nodes at random, and then 80 with one, two or four. Those without a place there wait.
func filledAtRandom(tb testing.TB, c simulate.Cluster, whole int, seed uint64) *simulate.State {
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 11))
	sim := state.Sim()
	for i := range whole + 80 {
		gpus := 8
		if i >= whole {
			gpus = []int{1, 1, 2, 4}[random.IntN(4)]
		}
		on, err := state.Node(c.Nodes[random.IntN(len(c.Nodes))].Name)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := sim.Put(tb.Context(), gpuPod(fmt.Sprintf("runs-%d", i), gpus), on); err != nil {
			tb.Fatal(err)
		}
	}
	return sim.State()
}
