// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// Which pods have to go for one with three GPUs, and what remains once they are gone.
func ExampleSim_Evict() {
	ctx := context.Background()
	state, err := simulate.Open(gpuCluster("a"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	sim := state.Sim()
	for _, pod := range append(gpuPods("two", 1), gpuPods("one", 2)...) {
		if _, err := sim.Place(ctx, pod, simulate.Real(nil), simulate.FirstFit); err != nil {
			panic(err)
		}
	}
	large := gpuPods("three", 1)
	shapes, err := state.Shapes(large)
	if err != nil {
		panic(err)
	}
	sets, _, err := sim.State().Victims(ctx, shapes[0], simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 1)
	if err != nil {
		panic(err)
	}
	sim.Fork() // a what-if
	if err := sim.Evict(sets[0].Pods...); err != nil {
		panic(err)
	}
	for _, pod := range sets[0].Pods {
		fmt.Println(pod.Name, "goes")
	}
	result, err := sim.Put(ctx, large[0], sets[0].Node)
	if err != nil {
		panic(err)
	}
	for placement := range result.Placements() {
		fmt.Println(placement.Pod.Name, "comes to", placement.Node.Name())
	}
	sim.Revert()
	fmt.Println("after Revert:", sim.Evict(large...))
	// Output:
	// two-0 goes
	// one-0 goes
	// three-0 comes to a
	// after Revert: pod default/three-0 is on no node
}
