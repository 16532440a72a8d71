// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

func (e *edits) claim(i int, claim *resourceapi.ResourceClaim) {
	devices := func(c *alloctest.Case) *resourceapi.DeviceClaim { return &c.Claims[i].Spec.Devices }
	for r := range claim.Spec.Devices.Requests {
		e.when(true, func(c *alloctest.Case) { drop(&devices(c).Requests, r) })
	}
	for n, constraint := range claim.Spec.Devices.Constraints {
		e.when(true, func(c *alloctest.Case) { drop(&devices(c).Constraints, n) })
		e.when(len(constraint.Requests) > 0, func(c *alloctest.Case) { devices(c).Constraints[n].Requests = nil })
	}
	for n := range claim.Spec.Devices.Config {
		e.when(true, func(c *alloctest.Case) { drop(&devices(c).Config, n) })
	}
	for r := range claim.Spec.Devices.Requests {
		e.request(&claim.Spec.Devices.Requests[r], func(c *alloctest.Case) *resourceapi.DeviceRequest { return &devices(c).Requests[r] })
	}
}

// request leaves out parts of a request, which in a copy of the case is found by at.
func (e *edits) request(r *resourceapi.DeviceRequest, at func(*alloctest.Case) *resourceapi.DeviceRequest) {
	for s := range r.FirstAvailable {
		e.when(len(r.FirstAvailable) > 1, func(c *alloctest.Case) { drop(&at(c).FirstAvailable, s) })
		e.subrequest(&r.FirstAvailable[s], func(c *alloctest.Case) *resourceapi.DeviceSubRequest { return &at(c).FirstAvailable[s] })
	}
	x := r.Exactly
	if x == nil {
		return
	}
	e.when(x.AdminAccess != nil, func(c *alloctest.Case) { at(c).Exactly.AdminAccess = nil })
	e.when(x.Count > 1, func(c *alloctest.Case) { at(c).Exactly.Count-- })
	e.when(len(x.Tolerations) > 0, func(c *alloctest.Case) { at(c).Exactly.Tolerations = nil })
	e.when(x.Capacity != nil, func(c *alloctest.Case) { at(c).Exactly.Capacity = nil })
	e.when(len(x.DerivedAttributes) > 0, func(c *alloctest.Case) { at(c).Exactly.DerivedAttributes = nil })
	for n := range x.Selectors {
		e.when(true, func(c *alloctest.Case) { drop(&at(c).Exactly.Selectors, n) })
	}
}

func (e *edits) subrequest(s *resourceapi.DeviceSubRequest, at func(*alloctest.Case) *resourceapi.DeviceSubRequest) {
	e.when(s.Count > 1, func(c *alloctest.Case) { at(c).Count-- })
	e.when(len(s.Tolerations) > 0, func(c *alloctest.Case) { at(c).Tolerations = nil })
	e.when(s.Capacity != nil, func(c *alloctest.Case) { at(c).Capacity = nil })
	e.when(len(s.DerivedAttributes) > 0, func(c *alloctest.Case) { at(c).DerivedAttributes = nil })
	for n := range s.Selectors {
		e.when(true, func(c *alloctest.Case) { drop(&at(c).Selectors, n) })
	}
}

func (e *edits) class(i int, class *resourceapi.DeviceClass) {
	for n := range class.Spec.Selectors {
		e.when(true, func(c *alloctest.Case) { drop(&c.Classes[i].Spec.Selectors, n) })
	}
	for n := range class.Spec.Config {
		e.when(true, func(c *alloctest.Case) { drop(&c.Classes[i].Spec.Config, n) })
	}
}

// features switches everything on: that is the simpler case to read.
func (e *edits) features(c *alloctest.Case) {
	e.when(c.Features != allocator.AllFeatures(), func(c *alloctest.Case) { c.Features = allocator.AllFeatures() })
	all := func(f *allocator.Features) []*bool {
		return []*bool{
			&f.AdminAccess, &f.CompatibilityGroups, &f.ConsumableCapacity, &f.DerivedAttributes, &f.DeviceBindingAndStatus,
			&f.DeviceTaints, &f.FractionalCapacityRange, &f.ListTypeAttributes, &f.OptionalNodeOperations,
			&f.PartitionableDevices, &f.PrioritizedList,
		}
	}
	for i, on := range all(&c.Features) {
		e.when(!*on, func(c *alloctest.Case) { *all(&c.Features)[i] = true })
	}
}
