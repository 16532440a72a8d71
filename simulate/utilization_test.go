// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// partitionsAndShares are a pool with the partitions of a GPU, and one with two NICs that can be shared.
func partitionsAndShares(node string) []*resourceapi.ResourceSlice {
	counters := func(memory string) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}, "unused": {}}
	}
	partition := func(name, memory string) resourceapi.Device {
		return resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu", Counters: counters(memory)}}}
	}
	sets, partitions, nics := &resourceapi.ResourceSlice{}, &resourceapi.ResourceSlice{}, &resourceapi.ResourceSlice{}
	for _, s := range []*resourceapi.ResourceSlice{sets, partitions, nics} {
		s.Spec.NodeName = &node
	}
	gpu := resourceapi.ResourcePool{Name: node + "-gpu", ResourceSliceCount: 2}
	sets.Name, sets.Spec.Driver, sets.Spec.Pool = node+"-sets", "gpu.example.com", gpu
	sets.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu", Counters: counters("80Gi")}}
	partitions.Name, partitions.Spec.Driver, partitions.Spec.Pool = node+"-partitions", "gpu.example.com", gpu
	partitions.Spec.Devices = []resourceapi.Device{partition("whole", "80Gi"), partition("half-0", "40Gi"), partition("half-1", "40Gi"), partition("rest", "8Gi")}
	nics.Name, nics.Spec.Driver, nics.Spec.Pool = node+"-nics", "nic.example.com", resourceapi.ResourcePool{Name: node + "-nic", ResourceSliceCount: 1}
	nics.Spec.Devices = []resourceapi.Device{
		{Name: "nic-0", AllowMultipleAllocations: ptr.To(true), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"bandwidth": {Value: resource.MustParse("100G")}, "queues": {Value: resource.MustParse("8")}}},
		{Name: "nic-1", AllowMultipleAllocations: ptr.To(true)},
	}
	return []*resourceapi.ResourceSlice{sets, partitions, nics}
}

// holding is a claim that holds a device; shares have an ID and what they consume.
func holding(name, driver, pool, device string, share types.UID, consumed map[resourceapi.QualifiedName]resource.Quantity) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = "default", name
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: pool, Device: device, ConsumedCapacity: consumed}
	if share != "" {
		result.ShareID = &share
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
	return claim
}

// The part in use is that of the counter or the capacity of which most is taken, and of devices the mean.
func TestUtilization(t *testing.T) {
	nic := func(name, device, bandwidth, queues string) *resourceapi.ResourceClaim {
		return holding(name, "nic.example.com", "a-nic", device, types.UID(uuid.NewString()), map[resourceapi.QualifiedName]resource.Quantity{
			"bandwidth": resource.MustParse(bandwidth), "queues": resource.MustParse(queues)})
	}
	gpu := func(device string) *resourceapi.ResourceClaim {
		return holding(device, "gpu.example.com", "a-gpu", device, "", nil)
	}
	for name, test := range map[string]struct {
		claims   []*resourceapi.ResourceClaim
		gpu, nic float64
	}{
		"nothing":                   {nil, 0, 0},
		"a small partition":         {[]*resourceapi.ResourceClaim{gpu("rest")}, 0.1, 0},
		"a counter":                 {[]*resourceapi.ResourceClaim{gpu("half-0")}, 0.5, 0},
		"all of a counter":          {[]*resourceapi.ResourceClaim{gpu("whole")}, 1, 0},
		"more of a counter than is": {[]*resourceapi.ResourceClaim{gpu("whole"), gpu("half-0")}, 1.5, 0},
		"a capacity":                {[]*resourceapi.ResourceClaim{nic("x", "nic-0", "20G", "1")}, 0, 0.1},
		"one capacity of two": {[]*resourceapi.ResourceClaim{holding("x", "nic.example.com", "a-nic", "nic-0", "00000000-0000-4000-8000-000000000000",
			map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("20G")})}, 0, 0.1},
		"another capacity, two":          {[]*resourceapi.ResourceClaim{nic("x", "nic-0", "20G", "4"), nic("y", "nic-0", "10G", "2")}, 0, 0.375},
		"shares without capacities":      {[]*resourceapi.ResourceClaim{holding("x", "nic.example.com", "a-nic", "nic-1", "00000000-0000-4000-8000-000000000000", nil)}, 0, 0.5},
		"all of a device beside a share": {[]*resourceapi.ResourceClaim{nic("x", "nic-0", "20G", "1"), holding("y", "nic.example.com", "a-nic", "nic-0", "", nil)}, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			c := gpuCluster()
			c.Nodes = []*corev1.Node{nodeNamed("a"), nodeNamed("b")}
			c.Slices = append(partitionsAndShares("a"), partitionsAndShares("b")...)
			c.Claims = test.claims
			state := open(t, c, simulate.Options{})
			if faults := state.Faults(); len(faults) > 0 {
				t.Fatal(faults)
			}
			for node, want := range map[string]map[pools.PoolID]float64{
				"a": {{Driver: "gpu.example.com", Name: "a-gpu"}: test.gpu, {Driver: "nic.example.com", Name: "a-nic"}: test.nic},
				"b": {{Driver: "gpu.example.com", Name: "b-gpu"}: 0, {Driver: "nic.example.com", Name: "b-nic"}: 0},
			} {
				handle, err := state.Node(node)
				if err != nil {
					t.Fatal(err)
				}
				if got := maps.Collect(state.Utilization(handle)); !maps.Equal(got, want) {
					t.Errorf("utilization of node %s is %v, want %v", node, got, want)
				}
			}
		})
	}
}

// A new node, an undecided one and one that is gone have a utilization like others.
func TestUtilizationOfNodesThatAreNotReal(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	sim := state.Sim()
	templates := make([]*simulate.Template, 0, 2)
	for _, gpus := range []int{4, 8} {
		name := fmt.Sprintf("gpu%d", gpus)
		template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed(name), Slices: []*resourceapi.ResourceSlice{gpuSlice(name, gpus)}, Price: float64(gpus)})
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, template)
	}
	either, err := state.Any("either", templates...)
	if err != nil {
		t.Fatal(err)
	}
	one := shapeOf(t, state, gpuPods("one", 1))
	for _, template := range []*simulate.Template{templates[1], either} {
		r, err := sim.PlaceMany(t.Context(), one, 2, simulate.New(template, 1), simulate.FirstFit)
		if err != nil || !r.All() {
			t.Fatal(r, err)
		}
		want := 2.0 / 8
		if template == either {
			want = 2.0 / 4 // the cheapest
		}
		for p := range r.Placements() {
			for id, got := range sim.State().Utilization(p.Node) {
				if got != want {
					t.Errorf("%v of pool %s of %s is in use, want %v", got, id, p.Node.Name(), want)
				}
			}
			if pools := len(maps.Collect(sim.State().Utilization(p.Node))); pools != 1 {
				t.Errorf("%d pools of %s, want 1", pools, p.Node.Name())
			}
		}
	}
	gone, err := state.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if found := maps.Collect(sim.State().Utilization(gone)); len(found) != 0 {
		t.Errorf("a node that is gone has %v", found)
	}
}

// fourGPUs are the slices of a pool with four GPUs, each of which can be had whole or in halves, and a device without counters.
func fourGPUs(node string) []*resourceapi.ResourceSlice {
	sets, devices := &resourceapi.ResourceSlice{}, &resourceapi.ResourceSlice{}
	sets.Name, devices.Name = node+"-sets", node+"-devices"
	for _, s := range []*resourceapi.ResourceSlice{sets, devices} {
		s.Spec.Driver, s.Spec.NodeName = "gpu.example.com", &node
		s.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2}
	}
	for i := range 4 {
		set := fmt.Sprintf("gpu-%d", i)
		counters := func(memory, cores string) map[string]resourceapi.Counter {
			return map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}, "cores": {Value: resource.MustParse(cores)}}
		}
		draws := func(memory, cores string) []resourceapi.DeviceCounterConsumption {
			return []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: counters(memory, cores)}}
		}
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: counters("80Gi", "8")})
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{Name: set, ConsumesCounters: draws("80Gi", "8")},
			resourceapi.Device{Name: set + "-a", ConsumesCounters: draws("40Gi", "3")}, resourceapi.Device{Name: set + "-b", ConsumesCounters: draws("40Gi", "3")})
	}
	return []*resourceapi.ResourceSlice{sets, devices}
}

// A GPU that is used up does not make a pool of four look full, and devices that share a GPU count once.
func TestUtilizationOfSeveralCounterSets(t *testing.T) {
	for name, test := range map[string]struct {
		held  []string
		plain int // devices without counters
		want  float64
	}{
		"one of four GPUs":          {[]string{"gpu-0"}, 0, 1.0 / 4},
		"two halves of a GPU":       {[]string{"gpu-0-a", "gpu-0-b"}, 0, 1.0 / 4},
		"halves of two GPUs":        {[]string{"gpu-0-a", "gpu-3-b"}, 0, 1.0 / 4},
		"all GPUs":                  {[]string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, 0, 1},
		"a GPU beside a plain one":  {[]string{"gpu-0"}, 1, 1.0 / 5},
		"the plain one":             {[]string{"plain-0"}, 1, 1.0 / 5},
		"a half, and two plain":     {[]string{"gpu-2-a", "plain-0", "plain-1"}, 4, 2.5 / 8},
		"more than there is of one": {[]string{"gpu-0", "gpu-0-a"}, 0, 1.5 / 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := gpuCluster()
			c.Nodes, c.Slices = []*corev1.Node{nodeNamed("a")}, fourGPUs("a")
			for i := range test.plain {
				c.Slices[1].Spec.Devices = append(c.Slices[1].Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("plain-%d", i)})
			}
			for _, device := range test.held {
				c.Claims = append(c.Claims, holding(device, "gpu.example.com", "a", device, "", nil))
			}
			state := open(t, c, simulate.Options{})
			node, err := state.Node("a")
			if err != nil {
				t.Fatal(err)
			}
			if got := maps.Collect(state.Utilization(node)); got[pools.PoolID{Driver: "gpu.example.com", Name: "a"}] != test.want {
				t.Errorf("%v is in use, want %v", got, test.want)
			}
		})
	}
}
