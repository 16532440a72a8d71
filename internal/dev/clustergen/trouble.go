// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// publish gives the slices of a pool their names and adds them to the case.
func (g *generator) publish(p *pool) {
	for i, slice := range p.slices {
		slice.Name = fmt.Sprintf("%s-%s-%d", p.driver, p.name, i)
		slice.Spec.Driver = p.driver
		if slice.Spec.Pool.Name == "" {
			slice.Spec.Pool = resourceapi.ResourcePool{
				Name: p.name, Generation: p.generation, ResourceSliceCount: int64(len(p.slices)),
			}
		}
		g.c.Slices = append(g.c.Slices, slice)
		for d := range slice.Spec.Devices {
			g.placed = append(g.placed, placedDevice{slice, &slice.Spec.Devices[d]})
		}
	}
}

// spoil applies the planned trouble to a pool.
func (g *generator) spoil(p *pool) {
	switch g.plan.trouble {
	case incompletePool:
		g.overstate(p)
	case stalePool:
		g.addStale(p)
	case stalePoolElsewhere:
		g.supersede(p, 1)
	case duplicateDevice:
		last := p.slices[len(p.slices)-1]
		again := last.Spec.Devices[0].DeepCopy()
		last.Spec.Devices = append(last.Spec.Devices, *again)
	case unknownCounter:
		g.consumeUnknown(p)
	case duplicateCounterSet:
		p.counterSets = max(1, p.counterSets)
		g.addCounters(p, func(spec *resourceapi.ResourceSliceSpec) { spec.AllNodes = ptr.To(true) })
		g.addCounters(p, func(spec *resourceapi.ResourceSliceSpec) { spec.AllNodes = ptr.To(true) })
	case unreachableSlice:
		p.slices = append(p.slices, &resourceapi.ResourceSlice{})
		last := p.slices[len(p.slices)-1]
		last.Spec.Devices = []resourceapi.Device{g.device(p.driver, p.devices)}
	case newerElsewhere:
		g.supersede(p, 0)
	case countMismatch:
		g.understate(p)
	}
}

func (g *generator) stamp(p *pool, generation, count int64, stamped []*resourceapi.ResourceSlice) {
	for _, slice := range stamped {
		slice.Spec.Pool = resourceapi.ResourcePool{Name: p.name, Generation: generation, ResourceSliceCount: count}
	}
}

// overstate claims one slice more than there is.
func (g *generator) overstate(p *pool) {
	g.stamp(p, p.generation, int64(len(p.slices))+1, p.slices)
}

// understate claims fewer slices than there are; where a node reaches exactly that
// many, upstream takes the pool for complete.
func (g *generator) understate(p *pool) {
	extra := g.addDevices(p, func(spec *resourceapi.ResourceSliceSpec) {
		spec.NodeName = ptr.To(g.otherNode())
	})
	extra.Spec.SkipNodeOperations = nil
	g.stamp(p, p.generation, int64(len(p.slices))-1, p.slices)
}

// addStale puts slices of an older generation next to the current ones.
func (g *generator) addStale(p *pool) {
	count := int64(len(p.slices))
	var stale []*resourceapi.ResourceSlice
	for _, slice := range p.slices {
		if g.chance(0.6) {
			stale = append(stale, slice.DeepCopy())
		}
	}
	g.stamp(p, p.generation+1, count, p.slices)
	g.stamp(p, p.generation, count, stale)
	p.slices = slices.Concat(stale, p.slices)
}

// supersede adds a slice of a newer generation on another node. The older slices miss
// that many slices of their own generation.
func (g *generator) supersede(p *pool, missing int64) {
	g.stamp(p, p.generation, int64(len(p.slices))+missing, p.slices)
	older := len(p.slices)
	g.addDevices(p, func(spec *resourceapi.ResourceSliceSpec) { spec.NodeName = ptr.To(g.otherNode()) })
	g.stamp(p, p.generation+1, 1, p.slices[older:])
}

func (g *generator) otherNode() string {
	for _, node := range g.c.Nodes {
		if node.Name != g.c.Node {
			return node.Name
		}
	}
	return g.c.Node
}

func (g *generator) consumeUnknown(p *pool) {
	last := p.slices[len(p.slices)-1]
	device := &last.Spec.Devices[g.intn(len(last.Spec.Devices))]
	device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
		CounterSet: pick(g, counterSetName(0), "missing"),
		Counters:   map[string]resourceapi.Counter{"missing": {Value: quantity("1")}},
	}}
}
