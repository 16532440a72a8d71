// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/alloctest"
)

const migDriver = "mig.example.com"

// profile is a kind of GPU partition: how many of eight memory slices and seven compute slices it
// uses, and at which memory slices it can start.
type profile struct {
	name            string
	memory, compute int
	starts          []int
}

// profiles are the profiles of a data-centre GPU, with 25 placements. The whole GPU is the 26th.
var profiles = []profile{
	{"1g.5gb", 1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	{"1g.5gb.me", 1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	{"1g.10gb", 2, 1, []int{0, 2, 4, 6}},
	{"2g.10gb", 2, 2, []int{0, 2, 4}},
	{"3g.20gb", 4, 3, []int{0, 4}},
	{"4g.20gb", 4, 4, []int{0}},
	{"7g.40gb", 8, 7, []int{0}},
}

// partitionPods are the pods that are measured on nodes with eight partitionable GPUs.
var partitionPods = []struct {
	name string
	// busy reports whether a GPU of a node has an allocated partition.
	busy     func(node, gpu int) bool
	profiles []string
	// elsewhere has numbers of shares that are in use on other nodes.
	elsewhere []int
}{
	{"one-small", someBusy, []string{"1g.5gb"}, []int{0}},
	{"three-mixed", someBusy, []string{"1g.5gb", "2g.10gb", "3g.20gb"}, []int{0, 40_000}},
	{"eight-mixed", someBusy, []string{"1g.5gb", "2g.10gb", "3g.20gb", "1g.10gb", "4g.20gb", "1g.5gb", "7g.40gb", "2g.10gb"}, []int{0}},
	{"three-mixed-infeasible", allBusy, []string{"1g.5gb", "2g.10gb", "7g.40gb"}, []int{0}},
}

func someBusy(node, gpu int) bool { return (node+1)>>(gpu%4)&1 == 1 && gpu < 7 }
func allBusy(int, int) bool       { return true }

// partitionWorkloads has 16 nodes with 208 partitions each, all in different states.
func partitionWorkloads() []Workload {
	var all []Workload
	for _, pod := range partitionPods {
		for _, elsewhere := range pod.elsewhere {
			all = append(all, Workload{
				Group: "partitions",
				Name:  fmt.Sprintf("pod=%s/shares-elsewhere=%d/nodes=16", pod.name, elsewhere),
				Build: func() *alloctest.Case {
					c := partitioned(16, pod.busy)
					sharesElsewhere(c, elsewhere)
					var asked []resourceapi.DeviceRequest
					for i, name := range pod.profiles {
						asked = append(asked, request(fmt.Sprintf("partition-%d", i), "mig", 1,
							fmt.Sprintf(`device.attributes["mig.example.com"].profile == %q`, name)))
					}
					c.claim("pending", asked...)
					return c.Case
				},
				Sample: 4,
				Pods:   []Pod{EqualPod, NewPod},
				Needed: Needed{Ratio: 100},
			})
		}
	}
	return all
}

func partitioned(nodes int, busy func(node, gpu int) bool) cluster {
	c := newCluster(fmt.Sprintf("%d nodes with eight partitionable GPUs", nodes))
	c.class("mig", `device.driver == "mig.example.com"`)
	for n := range nodes {
		name := c.node(fmt.Sprintf("node-%02d", n)).Name
		c.gpuPartitions(name)
		for gpu := range gpusPerNode {
			if busy(n, gpu) {
				start := (n + gpu) % 7
				c.running(migDriver, name, fmt.Sprintf("gpu-%d-1g.5gb-%d", gpu, start))
			}
		}
	}
	return c
}

// gpuPartitions adds a pool with four slices of devices, since counters limit a slice to 64, and
// one slice of counter sets.
func (c cluster) gpuPartitions(node string) {
	for s := range 4 {
		var devices []resourceapi.Device
		for gpu := 2 * s; gpu < 2*s+2; gpu++ {
			devices = append(devices, partitions(node, gpu)...)
		}
		c.pool(migDriver, node, devices...).Name += fmt.Sprintf("-%d", s)
	}
	counters := c.pool(migDriver, node)
	counters.Name += "-counters"
	for gpu := range gpusPerNode {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprintf("gpu-%d", gpu), Counters: taking(0, 8, 7),
		})
	}
	for _, slice := range c.Slices[len(c.Slices)-5:] {
		slice.Spec.Pool.ResourceSliceCount = 5
	}
}

// partitions returns the whole GPU, and every placement of every profile on it.
func partitions(node string, gpu int) []resourceapi.Device {
	parent := attribute("parentUUID", fmt.Sprintf("GPU-%s-%d", node, gpu))
	on := func(name string, kind profile, start int) resourceapi.Device {
		d := newDevice(name, parent, attribute("profile", kind.name), attribute("model", "A100"), version("driverVersion", "560.35.3"),
			capacity("memory", fmt.Sprintf("%dGi", 5*kind.memory)))
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: fmt.Sprintf("gpu-%d", gpu), Counters: taking(start, kind.memory, kind.compute),
		}}
		return d
	}
	all := []resourceapi.Device{on(fmt.Sprintf("gpu-%d", gpu), profile{"whole", 8, 7, nil}, 0)}
	for _, kind := range profiles {
		for _, start := range kind.starts {
			all = append(all, on(fmt.Sprintf("gpu-%d-%s-%d", gpu, kind.name, start), kind, start))
		}
	}
	return all
}

// taking returns the counters of a partition: one per memory slice, so that partitions cannot
// overlap, and an amount of compute.
func taking(start, memory, compute int) map[string]resourceapi.Counter {
	counters := map[string]resourceapi.Counter{
		"compute": {Value: *resource.NewQuantity(int64(compute), resource.DecimalSI)},
		"memory":  {Value: resource.MustParse(fmt.Sprintf("%dGi", 5*memory))},
	}
	for i := start; i < start+memory; i++ {
		counters[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: *resource.NewQuantity(1, resource.DecimalSI)}
	}
	return counters
}
