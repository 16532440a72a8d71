// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func perDevice(spec *resourceapi.ResourceSliceSpec) { spec.PerDeviceNodeSelection = ptr.To(true) }

// perDevicePool has devices that each say which nodes they reach.
func (g *generator) perDevicePool(driver string) *pool {
	p := g.sharedPool(driver, perDevice)
	for _, slice := range p.slices {
		for i := range slice.Spec.Devices {
			g.placeDevice(&slice.Spec.Devices[i])
		}
	}
	if p.counterSets > 0 {
		p.slices[0].Spec.PerDeviceNodeSelection = nil
		p.slices[0].Spec.AllNodes = ptr.To(true)
	}
	return p
}

func (g *generator) placeDevice(device *resourceapi.Device) {
	device.NodeName, device.AllNodes, device.NodeSelector = nil, nil, nil
	switch n := g.intn(10); {
	case n < 6:
		node := g.c.Node
		if g.chance(0.3) {
			node = g.c.Nodes[g.intn(len(g.c.Nodes))].Name
		}
		device.NodeName = &node
	case n < 8:
		device.AllNodes = ptr.To(true)
	default:
		device.NodeSelector = g.nodeSelector()
	}
}

// multiHostPool models one machine over several nodes: a part per node and wholes
// that several nodes reach, all drawing from the same counters.
func (g *generator) multiHostPool(driver string) *pool {
	p := &pool{driver: driver, name: g.poolName(), generation: 1, counterSets: 1}
	g.addCounters(p, func(spec *resourceapi.ResourceSliceSpec) { spec.AllNodes = ptr.To(true) })
	slice := &resourceapi.ResourceSlice{}
	perDevice(&slice.Spec)
	for _, node := range g.c.Nodes {
		part := g.hostDevice(p)
		part.NodeName = ptr.To(node.Name)
		slice.Spec.Devices = append(slice.Spec.Devices, part)
	}
	for range 1 + g.intn(2) {
		whole := g.hostDevice(p)
		whole.NodeSelector = g.nodeSelector()
		slice.Spec.Devices = append(slice.Spec.Devices, whole)
	}
	p.slices = append(p.slices, slice)
	return p
}

func (g *generator) hostDevice(p *pool) resourceapi.Device {
	device := g.device(p.driver, p.devices)
	p.devices++
	g.consume(&device, p.counterSets)
	return device
}
