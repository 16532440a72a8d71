// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// partition is a share of a counter set that a device draws, as with MIG: memory and
// compute slices in fixed proportions.
type partition struct{ memory, slices string }

var partitions = []partition{{"8", "4"}, {"4", "2"}, {"4", "1"}, {"2", "1"}, {"2500m", "1"}, {"0", "1"}}

// counterSlice returns the slice of a pool that holds its counter sets.
func (g *generator) counterSlice(count int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	for i := range count {
		slice.Spec.SharedCounters = append(slice.Spec.SharedCounters, resourceapi.CounterSet{
			Name: counterSetName(i),
			Counters: map[string]resourceapi.Counter{
				"memory": {Value: quantity(pick(g, "8", "8", "10", "12"))},
				"slices": {Value: quantity(pick(g, "4", "4", "6"))},
			},
		})
	}
	return slice
}

func counterSetName(i int) string { return fmt.Sprintf("card-%d", i) }

// consume makes a device draw from one of the counter sets, sometimes from two.
func (g *generator) consume(device *resourceapi.Device, counterSets int) {
	first := g.intn(counterSets)
	device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{g.consumption(first)}
	if counterSets > 1 && g.chance(0.25) {
		device.ConsumesCounters = append(device.ConsumesCounters, g.consumption((first+1)%counterSets))
	}
}

func (g *generator) consumption(counterSet int) resourceapi.DeviceCounterConsumption {
	p := pick(g, partitions...)
	consumption := resourceapi.DeviceCounterConsumption{
		CounterSet: counterSetName(counterSet),
		Counters: map[string]resourceapi.Counter{
			"memory": {Value: quantity(p.memory)},
			"slices": {Value: quantity(p.slices)},
		},
	}
	if g.chance(0.1) {
		delete(consumption.Counters, "slices")
	}
	if g.plan.groups {
		consumption.CompatibilityGroups = pick(g, nil, []string{"mig"}, []string{"mig"}, []string{"mps"}, []string{"mig", "mps"})
	}
	return consumption
}
