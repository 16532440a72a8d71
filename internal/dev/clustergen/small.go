// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// smallFeatures are the features that small cases combine, each with every other.
var smallFeatures = []Tag{
	SharesWithCapacity, SharesWithoutCapacity, Counters, CompatibilityGroups, Taints, AdminAccess,
	PrioritizedList, AllDevices, MatchAttribute, DistinctAttribute, ListAttributes, DerivedAttributes,
	BindingConditions, PerDeviceNodes, FailingSelectors, SeveralClaims, DevicesInUse, SeveralPools,
}

// PairTags returns the tags of which the distribution shows every pair.
func PairTags() []Tag { return append([]Tag(nil), smallFeatures...) }

// smallAttributes have the values 0 and 1 on most devices of a small case.
var smallAttributes = []resourceapi.QualifiedName{"a", "b", "c"}

// small builds a case of five to nine devices with few distinct values, in which
// several claims with several constraints each contend. Features that are on occur
// often; nothing else occurs, so that no feature hides what another one does.
type small struct {
	*generator
	on map[Tag]bool
	// attributes are those that constraints of this case may name.
	attributes []string
	// missing is the share of devices without an attribute, shared that of devices which
	// can be shared, scoped that of constraints which name requests.
	missing, shared, scoped float64
	shareable               int // the number of a device that can be shared in any case
	claimsWanted            int
}

// sharesFeatures draws the features of the profile Shares: devices that are shared
// without capacity, under constraints, and now and then another feature.
func (g *generator) sharesFeatures() map[Tag]bool {
	on := g.sprinkled(0.015)
	on[SharesWithoutCapacity] = true
	on[MatchAttribute] = g.chance(0.85)
	on[DistinctAttribute] = !on[MatchAttribute] || g.chance(0.25)
	on[SeveralClaims] = g.chance(0.8)
	return on
}

// pairFeatures draws two features that occur for certain, and some others.
func (g *generator) pairFeatures() map[Tag]bool {
	on := g.sprinkled(0.15)
	first := g.intn(len(smallFeatures))
	second := (first + 1 + g.intn(len(smallFeatures)-1)) % len(smallFeatures)
	on[smallFeatures[first]], on[smallFeatures[second]] = true, true
	return on
}

func (g *generator) sprinkled(share float64) map[Tag]bool {
	on := make(map[Tag]bool)
	for _, feature := range smallFeatures {
		on[feature] = g.chance(share)
	}
	return on
}

func (g *generator) buildSmall(on map[Tag]bool) {
	s := g.newSmall(on)
	s.buildCluster()
	s.addClaims()
	g.shuffleSlices()
}

func (g *generator) newSmall(on map[Tag]bool) *small {
	on[Counters] = on[Counters] || on[CompatibilityGroups]
	g.plan = plan{groups: on[CompatibilityGroups], used: on[DevicesInUse], capacity: on[SharesWithCapacity]}
	g.drivers = []string{gpuDriver}
	s := &small{
		generator: g, on: on,
		missing: pick(g, 0.05, 0.15, 0.3), shared: pick(g, 0.0, 0.15, 0.3), scoped: pick(g, 0.0, 0.0, 0.3), shareable: 1 + g.intn(6),
		claimsWanted: 1,
	}
	if on[SeveralClaims] {
		s.claimsWanted = 2 + g.intn(2)
	}
	for _, name := range smallAttributes[:2+g.intn(2)] {
		s.attributes = append(s.attributes, gpuDriver+"/"+string(name))
	}
	return s
}

func (s *small) buildCluster() {
	s.addNodes()
	s.addClasses()
	s.addPools()
	s.addAllocated()
}

func (s *small) addPools() {
	pools, devices := 1, 5+s.intn(5)
	if s.on[SeveralPools] {
		pools, devices = 2, 3+s.intn(2)
	}
	for range pools {
		p := &pool{driver: gpuDriver, name: s.poolName(), generation: 1}
		reach := s.reach()
		if s.on[Counters] && s.chance(0.9) {
			p.counterSets = 1 + s.intn(2)
			s.generator.addCounters(p, allNodes)
		}
		slices := 1 + s.intn(2)
		for i := range slices {
			s.addSlice(p, (devices+i)/slices, reach)
		}
		s.publish(p)
	}
}

func allNodes(spec *resourceapi.ResourceSliceSpec) { spec.AllNodes = ptr.To(true) }

func (s *small) reach() func(*resourceapi.ResourceSliceSpec) {
	switch {
	case s.on[PerDeviceNodes] && s.chance(0.8):
		return perDevice
	case s.chance(0.3):
		return allNodes
	}
	return func(spec *resourceapi.ResourceSliceSpec) { spec.NodeName = ptr.To(s.c.Node) }
}

func (s *small) addSlice(p *pool, devices int, reach func(*resourceapi.ResourceSliceSpec)) {
	slice := &resourceapi.ResourceSlice{}
	reach(&slice.Spec)
	for range devices {
		device := s.device(p)
		if ptr.Deref(slice.Spec.PerDeviceNodeSelection, false) {
			s.placeDevice(&device)
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	p.slices = append(p.slices, slice)
}

func (s *small) device(p *pool) resourceapi.Device {
	device := resourceapi.Device{Name: fmt.Sprintf("d%d", p.devices), Attributes: s.smallValues()}
	p.devices++
	if s.on[SharesWithCapacity] && s.chance(0.6) {
		s.addCapacity(&device)
	}
	if s.on[SharesWithoutCapacity] && len(device.Capacity) == 0 && (p.devices == s.shareable || s.chance(s.shared)) {
		device.AllowMultipleAllocations = ptr.To(true)
	}
	if p.counterSets > 0 && s.chance(0.85) {
		s.consume(&device, p.counterSets)
	}
	if s.on[Taints] && s.chance(0.4) {
		device.Taints = s.taints()
	}
	if s.on[BindingConditions] && s.chance(0.4) {
		s.bind(&device)
	}
	return device
}

func (s *small) smallValues() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	values := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	for _, name := range smallAttributes {
		if s.chance(s.missing) {
			continue
		}
		values[name] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(s.intn(2)))}
		if s.on[ListAttributes] && s.chance(0.5) {
			values[name] = resourceapi.DeviceAttribute{IntValues: some(s.generator, int64(0), 1, 2)}
		}
	}
	return values
}
