// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// Features that upstream's implementations can do. Kubernetes 1.37 has those of the
// incubating one on by default.
var (
	StableFeatures = allocator.Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	}
	IncubatingFeatures = allocator.Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
		DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true,
	}
)

// gates are those of an implementation, all or some of them, or none.
func (g *generator) gates() allocator.Features {
	f := pick(g, StableFeatures, IncubatingFeatures, IncubatingFeatures, allFeatures, allocator.Features{})
	if g.chance(0.5) {
		return f
	}
	for _, gate := range gatesOf(&f) {
		*gate = *gate && !g.chance(0.3)
	}
	return f
}

func gatesOf(f *allocator.Features) []*bool {
	return []*bool{
		&f.AdminAccess, &f.CompatibilityGroups, &f.ConsumableCapacity, &f.DerivedAttributes,
		&f.DeviceBindingAndStatus, &f.DeviceTaints, &f.FractionalCapacityRange,
		&f.ListTypeAttributes, &f.OptionalNodeOperations, &f.PartitionableDevices, &f.PrioritizedList,
	}
}

// DecisionWidest is the number of the decision on features that are off: Dray does
// what upstream's widest implementation does then, while kube-scheduler picks an older one
// which differs in more than those features.
const DecisionWidest = "0014"

// PickedDecision is Decision for the implementation of upstream's that kube-scheduler picks
// for the features of a case.
func PickedDecision(c *alloctest.Case) string {
	stable := within(c.Features, StableFeatures)
	switch {
	case stable && slices.ContainsFunc(c.Claims, needsMoreThanStable):
		return DecisionWidest
	case within(c.Features, IncubatingFeatures) && slices.ContainsFunc(c.Slices, skipsOperations):
		return DecisionWidest
	case stable && slices.ContainsFunc(c.Slices, bindsToNode):
		return DecisionWidest
	case stable && slices.ContainsFunc(c.Slices, hasBindingConditions):
		return DecisionWidest
	case stable && slices.ContainsFunc(c.Slices, func(s *resourceapi.ResourceSlice) bool { return countsElsewhere(c, s) }):
		return DecisionWidest
	case stable && slices.ContainsFunc(c.Slices, givesCounters):
		return DecisionWidest
	}
	return Decision(c)
}

// within tells whether no other features are on than those.
func within(f, those allocator.Features) bool {
	for i, on := range gatesOf(&f) {
		if *on && !*gatesOf(&those)[i] {
			return false
		}
	}
	return true
}

// needsMoreThanStable tells whether a claim has what the stable implementation does not
// know: it refuses constraints on distinct values, and ignores capacity requests.
func needsMoreThanStable(claim *resourceapi.ResourceClaim) bool {
	devices := &claim.Spec.Devices
	return slices.ContainsFunc(devices.Constraints, func(c resourceapi.DeviceConstraint) bool { return c.DistinctAttribute != nil }) ||
		slices.ContainsFunc(devices.Requests, func(r resourceapi.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.Capacity != nil ||
				slices.ContainsFunc(r.FirstAvailable, func(s resourceapi.DeviceSubRequest) bool { return s.Capacity != nil })
		})
}

func skipsOperations(slice *resourceapi.ResourceSlice) bool {
	return len(slice.Spec.SkipNodeOperations) > 0
}

// countsElsewhere tells whether a slice with counter sets is for other nodes.
func countsElsewhere(c *alloctest.Case, slice *resourceapi.ResourceSlice) bool {
	node := askedNode(c)
	return len(slice.Spec.SharedCounters) > 0 && node != nil && !reaches(slice, node)
}

// hasBindingConditions tells whether the pool of a slice comes after others. The random order of the stable
// implementation is that of a small map, which begins anywhere but is not shuffled.
func hasBindingConditions(slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return d.BindingConditions != nil })
}

// givesCounters tells whether a device consumes a negative amount of a counter. Once it is taken, the stable
// implementation goes back to devices before it.
func givesCounters(slice *resourceapi.ResourceSlice) bool {
	for _, device := range slice.Spec.Devices {
		for _, consumes := range device.ConsumesCounters {
			for _, counter := range consumes.Counters {
				if counter.Value.Sign() < 0 {
					return true
				}
			}
		}
	}
	return false
}

func bindsToNode(slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return ptr.Deref(d.BindsToNode, false) })
}
