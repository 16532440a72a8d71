// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"crypto/sha256"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

const (
	gpuDriver   = "gpu.example.com"
	gpusPerNode = 8
	gpuModel    = `device.attributes["gpu.example.com"].model == "H100"`
	otherModel  = `device.attributes["gpu.example.com"].model == "B200"`
)

// fleetStates are the states of use in which fleets are measured.
var fleetStates = []struct {
	name     string
	use      func(c cluster, n int)
	selector string
	needed   Needed
}{
	{"empty", idle, gpuModel, neededFeasible},
	{"used", useMost, gpuModel, neededFeasible},
	{"nothing-matches", idle, otherModel, Needed{Ratio: 500, Facade: 100, Allocs: ptr.To(0), PerPod: map[Pod]time.Duration{
		SelectorPod: 500 * time.Microsecond, NextPod: 500 * time.Microsecond,
	}}},
}

var neededFeasible = Needed{Ratio: 40, Facade: 15, Allocs: ptr.To(2), PerPod: map[Pod]time.Duration{
	SelectorPod: 2 * time.Millisecond, NextPod: 500 * time.Microsecond,
}}

// fleetSizes are numbers of nodes, with the kinds of pods that are measured for each. The smallest
// has no required ratio, since it shows the fixed cost of a pod.
var fleetSizes = []struct {
	nodes int
	pods  []Pod
}{
	{100, []Pod{NextPod, SelectorPod}},
	{1000, []Pod{EqualPod, NextPod, NewPod, SelectorPod}},
	{5000, []Pod{NextPod, SelectorPod}},
}

// fleetWorkloads has one pod with one GPU, on fleets of several sizes.
func fleetWorkloads() []Workload {
	var all []Workload
	for _, state := range fleetStates {
		for _, size := range fleetSizes {
			w := Workload{
				Group: "fleet",
				Name:  fmt.Sprintf("state=%s/nodes=%d", state.name, size.nodes),
				Build: func() *alloctest.Case {
					c := fleet(size.nodes, state.use)
					c.claim("pending", request("gpu", "gpu", 1, state.selector))
					return c.Case
				},
				Heavy:  size.nodes > 1000,
				Pods:   size.pods,
				Needed: state.needed,
			}
			if size.nodes < 1000 {
				w.Needed = Needed{}
			}
			if w.Heavy && state.name != "used" {
				w.Sample = 1000
			}
			all = append(all, w)
		}
	}
	return all
}

// unlikeWorkloads has a fleet without equal nodes, so that no result can be reused for another
// node. Two models are mixed, and different GPUs are in use on each node.
func unlikeWorkloads() []Workload {
	return []Workload{{
		Group: "unlike",
		Name:  "nodes=1000",
		Build: func() *alloctest.Case {
			c := fleet(1000, func(c cluster, n int) {
				for i := range 7 {
					if n>>i&1 == 1 {
						*c.Slices[n].Spec.Devices[i].Attributes["model"].StringValue = "A100"
					}
					if i < 3 && n>>(7+i)&1 == 1 {
						c.running(gpuDriver, c.Nodes[n].Name, fmt.Sprintf("gpu-%d", i))
					}
				}
			})
			c.claim("pending", request("gpu", "gpu", 1, gpuModel))
			return c.Case
		},
		Pods: []Pod{EqualPod, NextPod, NewPod, SelectorPod, FirstPod},
	}}
}

// fleet is a cluster of nodes with eight GPUs each, in one slice per node.
func fleet(nodes int, use func(c cluster, n int)) cluster {
	c := newCluster(fmt.Sprintf("fleet of %d nodes", nodes))
	c.class("gpu", `device.driver == "gpu.example.com"`)
	for n := range nodes {
		node := c.node(fmt.Sprintf("node-%d", n)).Name
		var gpus []resourceapi.Device
		for i := range gpusPerNode {
			gpus = append(gpus, gpu(node, i, "H100"))
		}
		c.pool(gpuDriver, node, gpus...)
		use(c, n)
	}
	return c
}

func idle(cluster, int) {}

// useMost allocates nine of ten GPUs. On most nodes one GPU is free, a different one from node to
// node. Each fifth node is full.
func useMost(c cluster, n int) {
	for i := range gpusPerNode {
		if n%5 == 4 || i != n/5%gpusPerNode {
			c.running(gpuDriver, c.Nodes[n].Name, fmt.Sprintf("gpu-%d", i))
		}
	}
}

// gpu returns a device with ten attributes, one of them unique, as drivers publish them.
func gpu(node string, i int, model string) resourceapi.Device {
	return newDevice(fmt.Sprintf("gpu-%d", i),
		attribute("uuid", fmt.Sprintf("GPU-%.16x", sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, i)))),
		attribute("model", model),
		attribute("brand", "Example"),
		attribute("architecture", "Hopper"),
		version("driverVersion", "560.35.3"),
		version("cudaDriverVersion", "12.6.0"),
		version("computeCapability", "9.0.0"),
		number("index", int64(i)),
		number("numa", int64(i/4)),
		boolean("ecc", true),
		capacity("memory", "80Gi"),
	)
}
