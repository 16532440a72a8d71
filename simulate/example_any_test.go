// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// A scale-up that does not choose the type of a node before all its pods are known: what remains of the
// choice is asked for at the end, and the cheapest is taken.
func ExampleState_Any() {
	ctx := context.Background()
	state, err := simulate.Open(gpuCluster(), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	var types []*simulate.Template
	for _, gpus := range []int{8, 2, 4} {
		name := fmt.Sprintf("gpu%d", gpus)
		template, err := state.Template(simulate.TemplateSpec{
			Node: nodeNamed(name), Slices: []*resourceapi.ResourceSlice{gpuSlice(name, gpus)}, Price: float64(gpus),
		})
		if err != nil {
			panic(err)
		}
		types = append(types, template)
	}
	undecided, err := state.Any("any", types...)
	if err != nil {
		panic(err)
	}
	shapes, err := state.Shapes(slices.Concat(gpuPods("one", 1), gpuPods("two", 1), gpuPods("three", 2)))
	if err != nil {
		panic(err)
	}
	sim := state.Sim()
	var placed []simulate.Placement
	for _, shape := range shapes {
		result, err := sim.PlaceMany(ctx, shape, len(shape.Pods), simulate.New(undecided, 0), simulate.FirstFit)
		if err != nil {
			panic(err)
		}
		placed = slices.AppendSeq(placed, result.Placements())
		for p := range result.Placements() {
			fmt.Printf("%s on %s, which can be", p.Pod.Name, p.Node.Name())
			for _, option := range sim.Options(p.Node) {
				fmt.Print(" ", option.Node().Name)
			}
			fmt.Println()
		}
	}
	for i := range placed {
		cheapest := sim.Options(placed[i].Node)[0]
		if err := sim.Decide(placed[i].Node, cheapest); err != nil {
			panic(err)
		}
		decided := placed[i].As(cheapest)
		claims, err := decided.Claims(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s has %d devices of a %s\n", placed[i].Pod.Name, len(claims[0].Status.Allocation.Devices.Results), cheapest.Node().Name)
	}
	// Output:
	// three-0 on any-new-0, which can be gpu8
	// three-1 on any-new-0, which can be gpu8
	// two-0 on any-new-0, which can be gpu8
	// one-0 on any-new-1, which can be gpu2 gpu4 gpu8
	// three-0 has 3 devices of a gpu8
	// three-1 has 3 devices of a gpu8
	// two-0 has 2 devices of a gpu8
	// one-0 has 1 devices of a gpu2
}

// Two GPUs of one PCIe root, on a node that does not exist. Which roots there will be is not known, but
// which devices share one is.
func ExampleEqual() {
	ctx := context.Background()
	cluster := gpuCluster()
	constraint := resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot"))}
	cluster.Templates[1].Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{constraint}
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	gpu := func(n int) pools.DeviceID {
		return pools.DeviceID{Driver: "gpu.example.com", Pool: "gpu4", Device: fmt.Sprint("gpu-", n)}
	}
	template, err := state.Template(simulate.TemplateSpec{
		Node: nodeNamed("gpu4"), Slices: []*resourceapi.ResourceSlice{gpuSlice("gpu4", 4)},
		Equal: []simulate.Equal{
			{Attribute: "resource.kubernetes.io/pcieRoot", Devices: []pools.DeviceID{gpu(0), gpu(2)}},
			{Attribute: "resource.kubernetes.io/pcieRoot", Devices: []pools.DeviceID{gpu(1), gpu(3)}},
		},
	})
	if err != nil {
		panic(err)
	}
	result, err := state.Sim().Place(ctx, gpuPods("two", 1)[0], simulate.New(template, 1), simulate.FirstFit)
	if err != nil {
		panic(err)
	}
	for placement := range result.Placements() {
		claims, err := placement.Claims(ctx)
		if err != nil {
			panic(err)
		}
		for _, device := range claims[0].Status.Allocation.Devices.Results {
			fmt.Println(device.Device)
		}
	}
	// Output:
	// gpu-0
	// gpu-2
}
