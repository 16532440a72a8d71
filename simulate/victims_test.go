// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// The cheapest sets are those that trying all sets finds.
func TestVictimsByBruteForce(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		state := open(t, gpuCluster("a", "b", "c"), simulate.Options{})
		sim := state.Sim()
		sizes, costs := make(map[string][]int), make(map[string][]float64)
		costOf := make(map[string]float64)
		for i := range random.IntN(9) {
			size := 1 + random.IntN(2)
			pod := gpuPods([]string{"one", "two"}[size-1], 1)[0]
			pod.Name = fmt.Sprintf("pod-%d", i)
			r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.Spread)
			if err != nil {
				t.Fatal(err)
			}
			for placement := range r.Placements() {
				node, cost := placement.Node.Name(), float64(random.IntN(5))
				if random.IntN(6) == 0 {
					cost = math.Inf(1)
				}
				sizes[node], costs[node] = append(sizes[node], size), append(costs[node], cost)
				costOf[pod.Name] = cost
			}
		}
		shape := shapeOf(t, state, gpuPods("three", 1))
		sets, err := sim.State().Victims(t.Context(), shape, simulate.Real(nil), func(pod *corev1.Pod) float64 { return costOf[pod.Name] }, 3)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []float64
		for _, node := range []string{"a", "b", "c"} {
			if least, possible := cheapest(sizes[node], costs[node], 4, 3); possible {
				want = append(want, least)
			}
		}
		for _, set := range sets {
			if !set.Least {
				t.Errorf("seed %d: the set on %s is not proven to be the least", seed, set.Node.Name())
			}
			got = append(got, set.Cost)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: sets cost %v, want %v; sizes %v, costs %v", seed, got, want, sizes, costs)
		}
	}
}

// cheapest tries all sets of pods on a node with so many devices for one pod that needs some.
func cheapest(sizes []int, costs []float64, devices, needed int) (least float64, possible bool) {
	least = math.Inf(1)
	free := devices
	for _, size := range sizes {
		free -= size
	}
	for set := range uint(1) << len(sizes) {
		room, cost := free, 0.0
		for rest := set; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros(rest)
			room, cost = room+sizes[i], cost+costs[i]
		}
		if room >= needed {
			least = min(least, cost)
		}
	}
	return least, !math.IsInf(least, 1)
}
