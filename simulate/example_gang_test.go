// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"fmt"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// Admission of gangs: the pods of a gang start together on nodes of one rack, or not at all. What a gang that starts has is no longer free
// for the next one.
func Example_gangAdmission() {
	ctx := context.Background()
	cluster := gpuCluster("a", "b", "c", "d") // with four GPUs each
	for i, rack := range []string{"r1", "r1", "r2", "r2"} {
		cluster.Nodes[i].Labels = map[string]string{"rack": rack}
	}
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	sim := state.Sim()
	sameRack := []simulate.Topology{{NodeLabel: "rack"}}
	for _, gang := range []struct {
		name, claimTemplate string
		pods                int
	}{{"tune", "three", 2}, {"train", "two", 4}, {"late", "three", 2}} {
		shapes, err := state.Shapes(gpuPods(gang.claimTemplate, gang.pods))
		if err != nil {
			panic(err)
		}
		result, err := sim.Gang(ctx, []simulate.Demand{{Shape: shapes[0], Count: gang.pods}}, sameRack, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			panic(err)
		}
		if !result.All() {
			fmt.Println(gang.name, "waits, as do all its pods:", result.Unfit)
			continue
		}
		fmt.Print(gang.name, " starts on")
		for placement := range result.Placements() {
			fmt.Print(" ", placement.Node.Name())
		}
		fmt.Println()
	}
	// Output:
	// tune starts on a b
	// train starts on c c d d
	// late waits, as do all its pods: 2
}
