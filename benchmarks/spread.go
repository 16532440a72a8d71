// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// spreadWorkloads has one pool with a slice for each node.
func spreadWorkloads() []Workload {
	var all []Workload
	for _, nodes := range []int{100, 1000} {
		all = append(all, Workload{
			Group: "pool-over-nodes",
			Name:  fmt.Sprintf("nodes=%d", nodes),
			Build: func() *alloctest.Case {
				c := fleet(nodes, idle)
				for _, slice := range c.Slices {
					slice.Spec.Pool = resourceapi.ResourcePool{Name: "gpus", Generation: 1, ResourceSliceCount: int64(nodes)}
					for i := range slice.Spec.Devices {
						slice.Spec.Devices[i].Name = *slice.Spec.NodeName + "-" + slice.Spec.Devices[i].Name
					}
				}
				c.claim("pending", request("gpu", "gpu", 1, gpuModel))
				return c.Case
			},
			Sample: 20,
			Pods:   []Pod{EqualPod, NewPod},
			// The cost must not depend on the number of nodes. Upstream's is quadratic.
			Needed: Needed{Ratio: map[int]float64{1000: 1000}[nodes]},
		})
	}
	return all
}

// perDeviceWorkloads has a pool of 400 devices with a node selector each.
func perDeviceWorkloads() []Workload {
	var all []Workload
	for _, by := range []struct {
		name   string
		choose func(d *resourceapi.Device, node string)
	}{
		{"nodeName", func(d *resourceapi.Device, node string) { d.NodeName = &node }},
		{"nodeSelector", func(d *resourceapi.Device, node string) { d.NodeSelector = hostname(node) }},
	} {
		all = append(all, Workload{
			Group:  "per-device-nodes",
			Name:   fmt.Sprintf("by=%s/devices=400/nodes=50", by.name),
			Build:  func() *alloctest.Case { return perDevice(50, by.choose) },
			Pods:   []Pod{EqualPod, NewPod},
			Needed: Needed{Ratio: 500},
		})
	}
	return all
}

func perDevice(nodes int, choose func(d *resourceapi.Device, node string)) *alloctest.Case {
	c := fleet(nodes, idle)
	const nodesPerSlice = 10
	merged := make([]*resourceapi.ResourceSlice, nodes/nodesPerSlice)
	for s := range merged {
		merged[s] = &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver:                 gpuDriver,
			PerDeviceNodeSelection: ptr.To(true),
			Pool:                   resourceapi.ResourcePool{Name: "gpus", Generation: 1, ResourceSliceCount: int64(len(merged))},
		}}
		merged[s].Name = fmt.Sprintf("gpus-%d", s)
		for _, slice := range c.Slices[s*nodesPerSlice : (s+1)*nodesPerSlice] {
			for _, d := range slice.Spec.Devices {
				d.Name = *slice.Spec.NodeName + "-" + d.Name
				choose(&d, *slice.Spec.NodeName)
				merged[s].Spec.Devices = append(merged[s].Spec.Devices, d)
			}
		}
	}
	c.Slices = merged
	c.claim("pending", request("gpu", "gpu", 1, gpuModel))
	return c.Case
}
