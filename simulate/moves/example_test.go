// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// Four GPUs are free, but on three nodes: which pods have to move for a pod that wants four on one node?
func ExampleFind() {
	ctx := context.Background()
	cluster := gpuCluster(4, 4, 4)
	opened, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	sim := opened.Sim()
	for i, gpus := range []int{3, 2, 3} {
		node, err := opened.Node(fmt.Sprintf("node-%d", i))
		if err != nil {
			panic(err)
		}
		for k := range gpus {
			if _, err := sim.Put(ctx, gpuPod(fmt.Sprintf("runs-%d-%d", i, k), 1), node); err != nil {
				panic(err)
			}
		}
	}
	plan, err := moves.Find(ctx, sim.State(), moves.Question{
		Wanted: []*corev1.Pod{gpuPod("wanted", 4)}, Nodes: names(&cluster),
	})
	if err != nil {
		panic(err)
	}
	for i := range plan.Steps {
		step := &plan.Steps[i]
		device := step.Claims[0].Status.Allocation.Devices.Results[0].Device
		fmt.Println(step.Pod.Name, "from", step.From.Name(), "to", step.To.Name(), "with", device)
	}
	fmt.Println("then wanted fits on", plan.Places[0].Node.Name())
	fmt.Println("moves:", plan.Cost, "at least:", plan.Bound, "pods without a place meanwhile:", plan.Room)
	// Output:
	// runs-1-1 from node-1 to node-2 with gpu-3
	// runs-1-0 from node-1 to node-0 with gpu-3
	// then wanted fits on node-1
	// moves: 2 at least: 2 pods without a place meanwhile: 0
}

// Three nodes have two pods each. How many nodes can be empty, and which pods move for that?
func ExampleFree() {
	ctx := context.Background()
	cluster := gpuCluster(4, 4, 4)
	opened, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	sim := opened.Sim()
	for i, gpus := range []int{1, 1, 2, 1, 1, 1} {
		node, err := opened.Node(fmt.Sprintf("node-%d", i/2))
		if err != nil {
			panic(err)
		}
		if _, err := sim.Put(ctx, gpuPod(fmt.Sprintf("runs-%d", i), gpus), node); err != nil {
			panic(err)
		}
	}
	plan, err := moves.Free(ctx, sim.State(), moves.Nodes, moves.Question{Nodes: names(&cluster)})
	if err != nil {
		panic(err)
	}
	for i := range plan.Steps {
		step := &plan.Steps[i]
		fmt.Println(step.Pod.Name, "from", step.From.Name(), "to", step.To.Name())
	}
	fmt.Println(plan.After, "node is empty then, never more than", plan.Most, "are:", plan.Freed)
	// Output:
	// runs-1 from node-0 to node-2
	// runs-0 from node-0 to node-2
	// 1 node is empty then, never more than 1 are: [node-0]
}
