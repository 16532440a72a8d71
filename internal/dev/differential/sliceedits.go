// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// dropSlices leaves out slices: all that are not of one pool, or single ones, with
// and without telling the rest of the pool.
func (e *edits) dropSlices(c *alloctest.Case) {
	pools := make(map[resourceapi.ResourcePool]bool)
	for _, slice := range c.Slices {
		pool := slice.Spec.Pool
		if !pools[pool] {
			pools[pool] = true
			e.when(true, func(c *alloctest.Case) {
				c.Slices = slices.DeleteFunc(c.Slices, func(s *resourceapi.ResourceSlice) bool { return s.Spec.Pool == pool })
			})
		}
	}
	for i, slice := range c.Slices {
		e.when(slice.Spec.Pool.ResourceSliceCount > 1, func(c *alloctest.Case) {
			pool := c.Slices[i].Spec.Pool
			drop(&c.Slices, i)
			for _, other := range c.Slices {
				if other.Spec.Pool == pool {
					other.Spec.Pool.ResourceSliceCount--
				}
			}
		})
		e.when(true, func(c *alloctest.Case) { drop(&c.Slices, i) })
	}
}

func (e *edits) slice(i int, slice *resourceapi.ResourceSlice) {
	spec := func(c *alloctest.Case) *resourceapi.ResourceSliceSpec { return &c.Slices[i].Spec }
	e.when(len(slice.Spec.SkipNodeOperations) > 0, func(c *alloctest.Case) { spec(c).SkipNodeOperations = nil })
	for s, set := range slice.Spec.SharedCounters {
		e.when(true, func(c *alloctest.Case) { drop(&spec(c).SharedCounters, s) })
		for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
			e.when(true, func(c *alloctest.Case) { delete(spec(c).SharedCounters[s].Counters, name) })
		}
	}
	for d := range slice.Spec.Devices {
		e.when(true, func(c *alloctest.Case) { drop(&spec(c).Devices, d) })
	}
	for d := range slice.Spec.Devices {
		e.device(&slice.Spec.Devices[d], func(c *alloctest.Case) *resourceapi.Device { return &spec(c).Devices[d] })
	}
}

// device leaves out parts of a device, which in a copy of the case is found by at.
func (e *edits) device(d *resourceapi.Device, at func(*alloctest.Case) *resourceapi.Device) {
	e.when(len(d.Taints) > 0, func(c *alloctest.Case) { at(c).Taints = nil })
	e.when(d.BindingConditions != nil, func(c *alloctest.Case) {
		at(c).BindingConditions, at(c).BindingFailureConditions = nil, nil
	})
	e.when(d.BindsToNode != nil, func(c *alloctest.Case) { at(c).BindsToNode = nil })
	e.when(d.AllowMultipleAllocations != nil, func(c *alloctest.Case) { at(c).AllowMultipleAllocations = nil })
	e.when(len(d.ConsumesCounters) > 0, func(c *alloctest.Case) { at(c).ConsumesCounters = nil })
	for i, consumption := range d.ConsumesCounters {
		e.when(len(d.ConsumesCounters) > 1, func(c *alloctest.Case) { drop(&at(c).ConsumesCounters, i) })
		e.when(len(consumption.CompatibilityGroups) > 0, func(c *alloctest.Case) { at(c).ConsumesCounters[i].CompatibilityGroups = nil })
		for _, name := range slices.Sorted(maps.Keys(consumption.Counters)) {
			e.when(true, func(c *alloctest.Case) { delete(at(c).ConsumesCounters[i].Counters, name) })
		}
	}
	e.when(len(d.Attributes) > 1, func(c *alloctest.Case) { at(c).Attributes = nil })
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		e.when(true, func(c *alloctest.Case) { delete(at(c).Attributes, name) })
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		e.when(true, func(c *alloctest.Case) { delete(at(c).Capacity, name) })
		e.when(d.Capacity[name].RequestPolicy != nil, func(c *alloctest.Case) {
			at(c).Capacity[name] = resourceapi.DeviceCapacity{Value: d.Capacity[name].Value}
		})
	}
}
