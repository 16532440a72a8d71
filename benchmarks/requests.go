// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// requestWorkloads has pods that request more of a fleet than one GPU.
func requestWorkloads() []Workload {
	ask := func(group, name string, nodes int, needed float64, requests ...resourceapi.DeviceRequest) Workload {
		return Workload{
			Group: group,
			Name:  fmt.Sprintf("%s/nodes=%d", name, nodes),
			Build: func() *alloctest.Case {
				c := fleet(nodes, idle)
				c.claim("pending", requests...)
				return c.Case
			},
			Pods:   []Pod{EqualPod, NewPod},
			Needed: Needed{Ratio: needed},
		}
	}
	every := request("gpus", "gpu", 0, gpuModel)
	every.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	distinct := ask("distinct-selectors", "selectors=12", 50, 0, distinctSelectors(12)...)
	distinct.Build = twelveModels(distinct.Build)
	return []Workload{
		ask("count", "count=8", 1000, 80, request("gpus", "gpu", 8, gpuModel)),
		ask("all", "devices=8", 1000, 80, every),
		ask("alternatives", "requests=8/alternatives=8", 50, 200, lastAlternatives(8, 8)...),
		distinct,
	}
}

// lastAlternatives returns prioritized lists of which only the last entry can be allocated.
func lastAlternatives(requests, choices int) []resourceapi.DeviceRequest {
	var all []resourceapi.DeviceRequest
	for r := range requests {
		var expressions []string
		for i := range choices - 1 {
			expressions = append(expressions, fmt.Sprintf(`device.attributes["gpu.example.com"].model == "future-%d"`, i))
		}
		all = append(all, alternatives(fmt.Sprintf("gpu-%d", r), "gpu", append(expressions, gpuModel)...))
	}
	return all
}

// distinctSelectors returns one request for each model of a node.
func distinctSelectors(n int) []resourceapi.DeviceRequest {
	var all []resourceapi.DeviceRequest
	for i := range n {
		all = append(all, request(fmt.Sprintf("gpu-%d", i), "gpu", 1, fmt.Sprintf(`device.attributes["gpu.example.com"].model == "M%d"`, i)))
	}
	return all
}

// twelveModels gives each node one GPU of each model.
func twelveModels(build func() *alloctest.Case) func() *alloctest.Case {
	return func() *alloctest.Case {
		c := build()
		for _, slice := range c.Slices {
			slice.Spec.Devices = nil
			for i := range 12 {
				slice.Spec.Devices = append(slice.Spec.Devices, gpu(*slice.Spec.NodeName, i, fmt.Sprintf("M%d", i)))
			}
		}
		return c
	}
}
