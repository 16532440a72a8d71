// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
)

const (
	manyNodes     = 40
	gpusOfEach    = 6
	devicesPerPod = 2
	elsewhere     = 5000 // devices in use of pools that no slice is of
)

// manyPools has a pool for each node, and a claim for two of its devices.
func manyPools(t *testing.T) *alloctest.Case {
	var text strings.Builder
	text.WriteString("\ncluster\n")
	for n := range manyNodes {
		fmt.Fprintf(&text, "node node-%d\n", n)
	}
	text.WriteString("class gpu\n")
	for n := range manyNodes {
		fmt.Fprintf(&text, "slice gpu.example.com/node-%d on node-%d\n  gpu-[0..%d]\n", n, n, gpusOfEach-1)
	}
	fmt.Fprintf(&text, "----\n\nallocate two node=node-0\nclaim two\n  request gpus class=gpu count=%d\n----\n", devicesPerPod)
	for i := range devicesPerPod {
		fmt.Fprintf(&text, "two/gpus -> gpu.example.com/node-0/gpu-%d\n", i)
	}
	text.WriteString("two on node-0\n")
	scenarios, err := alloctest.Parse("pools.txt", text.String())
	if err != nil {
		t.Fatal(err)
	}
	return scenarios[0].Case
}

// Of a large state, the usage of the first pools is looked up, then everything is read. The answers are for
// the devices in use when the allocator is made, whatever was in use before.
func TestLargeStatesThatChange(t *testing.T) {
	c := manyPools(t)
	random := rand.New(rand.NewPCG(1, 4))
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}
	for i := range elsewhere {
		state.AllocatedDevices.Insert(structured.MakeDeviceID("gpu.example.com", fmt.Sprintf("gone-%d", i/8), fmt.Sprintf("gpu-%d", i%8)))
	}
	id := func(node, gpu int) structured.DeviceID {
		return structured.MakeDeviceID("gpu.example.com", fmt.Sprintf("node-%d", node), fmt.Sprintf("gpu-%d", gpu))
	}
	for pod := range 60 {
		a, err := structured.NewAllocator(t.Context(), structured.Features(c.Features), state, classes(c.Classes), c.Slices, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := random.Perm(manyNodes)
		if pod%3 == 0 {
			asked = asked[:1] // too few for what comes next to be expected to read everything
		}
		for _, n := range asked {
			var want []string
			for gpu := range gpusOfEach {
				if len(want) < devicesPerPod && !state.AllocatedDevices.Has(id(n, gpu)) {
					want = append(want, fmt.Sprintf("gpu-%d", gpu))
				}
			}
			if len(want) < devicesPerPod {
				want = nil
			}
			results, err := a.Allocate(t.Context(), c.Nodes[n], c.Claims)
			var got []string
			for _, result := range results {
				for _, device := range result.Devices.Results {
					got = append(got, device.Device)
				}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("pod %d, node %d: %v, %v, want %v", pod, n, got, err, want)
			}
		}
		for range random.IntN(4) {
			changed := id(random.IntN(manyNodes), random.IntN(gpusOfEach))
			if state.AllocatedDevices.Has(changed) {
				state.AllocatedDevices.Delete(changed)
			} else {
				state.AllocatedDevices.Insert(changed)
			}
		}
	}
}

// Goroutines ask about nodes of which different devices are in use, and of which the first ones are free. The race
// detector watches what such nodes share.
func TestConcurrentUseOfFreeDevices(t *testing.T) {
	const bits = 10
	c := manyPools(t)
	var nodes []*corev1.Node
	var slices []*resourceapi.ResourceSlice
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}
	for n := range 1 << bits {
		node, slice := c.Nodes[0].DeepCopy(), c.Slices[0].DeepCopy()
		node.Name = fmt.Sprintf("node-%d", n)
		slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = node.Name, &node.Name, node.Name
		slice.Spec.Devices = nil
		for gpu := range devicesPerPod + bits {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", gpu)})
			if gpu >= devicesPerPod && n>>(gpu-devicesPerPod)&1 == 1 {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(slice.Spec.Driver, node.Name, slice.Spec.Devices[gpu].Name))
			}
		}
		nodes, slices = append(nodes, node), append(slices, slice)
	}
	a, err := structured.NewAllocator(t.Context(), structured.Features(c.Features), state, classes(c.Classes), slices, nil)
	if err != nil {
		t.Fatal(err)
	}
	const workers = 4
	var group sync.WaitGroup
	for first := range workers {
		group.Go(func() {
			for n := first; n < len(nodes); n += workers {
				results, err := a.Allocate(t.Context(), nodes[n], c.Claims)
				if err != nil || len(results) != 1 || results[0].Devices.Results[0].Device != "gpu-0" {
					t.Errorf("%s: %v, error %v", nodes[n].Name, results, err)
				}
			}
		})
	}
	group.Wait()
}
