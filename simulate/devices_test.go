// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// dividedCluster has a node with a GPU that has two halves, two GPUs that draw on one counter which suffices for both, a
// network card of which several pods may have shares, and a plain device.
func dividedCluster() simulate.Cluster {
	c := gpuCluster("a")
	counter := func(name string, n int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{name: {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	draws := func(set, name string, n int64) []resourceapi.DeviceCounterConsumption {
		return []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: counter(name, n)}}
	}
	devices := c.Slices[0]
	counters := devices.DeepCopy()
	counters.Name, counters.Spec.Devices = "a-counters", nil
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu", Counters: counter("halves", 2)}, {Name: "power", Counters: counter("watts", 800)}}
	devices.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
	devices.Spec.Devices = []resourceapi.Device{
		{Name: "whole", ConsumesCounters: draws("gpu", "halves", 2)},
		{Name: "half-0", ConsumesCounters: draws("gpu", "halves", 1)},
		{Name: "half-1", ConsumesCounters: draws("gpu", "halves", 1)},
		{Name: "power-0", ConsumesCounters: draws("power", "watts", 400)},
		{Name: "power-1", ConsumesCounters: draws("power", "watts", 400)},
		{Name: "card", AllowMultipleAllocations: ptr.To(true)},
		{Name: "plain"},
	}
	c.Slices = append(c.Slices, counters)
	c.Templates = append(c.Templates, gpuTemplate("one", 1))
	return c
}

// Devices says of each device whether it is whole, and whether what is in use leaves all of it.
func TestDevices(t *testing.T) {
	c := dividedCluster()
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	node, err := state.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	list := func(s *simulate.State, has func(simulate.DeviceUse) bool) string {
		var names []string
		for id, use := range s.Devices(node) {
			if has(use) {
				names = append(names, id.Device)
			}
		}
		return strings.Join(names, " ")
	}
	if whole := list(state, func(u simulate.DeviceUse) bool { return u.Whole }); whole != "whole power-0 power-1 card plain" {
		t.Errorf("whole: %s", whole)
	}
	for held, free := range map[string]string{
		"": "whole half-0 half-1 power-0 power-1 card plain", "whole": "power-0 power-1 card plain", "half-0": "half-1 power-0 power-1 card plain",
		"power-0": "whole half-0 half-1 power-1 card plain", "card": "whole half-0 half-1 power-0 power-1 plain", "plain": "whole half-0 half-1 power-0 power-1 card",
	} {
		sim := state.Sim()
		if held != "" {
			result := resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: c.Slices[0].Spec.Driver, Pool: c.Slices[0].Spec.Pool.Name, Device: held}
			if held == "card" {
				result.ShareID = ptr.To[types.UID]("7d1f1c9e-0000-4000-8000-000000000000")
			}
			allocation := resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
			if _, err := sim.Put(t.Context(), gpuPods("one", 1)[0], node, allocation); err != nil {
				t.Fatal(err)
			}
		}
		if got := list(sim.State(), func(u simulate.DeviceUse) bool { return u.Free }); got != free {
			t.Errorf("with %q in use, free are %s; want %s", held, got, free)
		}
	}
}

// Devices of a node of a template have its names, and a node that is gone has neither devices nor an object.
func TestDevicesElsewhere(t *testing.T) {
	state, err := simulate.Open(gpuCluster("a"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	node, err := state.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	template, err := state.TemplateOf("a", func(*corev1.Pod) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	if object := state.Object(node); object == nil || object.Name != "a" {
		t.Errorf("object %v", object)
	}
	if err := sim.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if object := sim.State().Object(node); object != nil {
		t.Errorf("a node that is gone has the object %v", object)
	}
	for id := range sim.State().Devices(node) {
		t.Errorf("a node that is gone has the device %v", id)
	}
	result, err := sim.Place(t.Context(), &corev1.Pod{}, simulate.New(template, 1), simulate.FirstFit)
	if err != nil || !result.All() {
		t.Fatal(result, err)
	}
	for placement := range result.Placements() {
		var all []pools.DeviceID
		for id := range sim.State().Devices(placement.Node) {
			all = append(all, id)
		}
		node, published := template.Nodes(0)
		if len(all) == 0 || len(all) != len(published[0].Spec.Devices) || all[0].Pool != published[0].Spec.Pool.Name {
			t.Errorf("node %s has %v", node.Name, all)
		}
		if object := sim.State().Object(placement.Node); object != nil {
			t.Errorf("a node of a template has the object %v", object)
		}
	}
}
