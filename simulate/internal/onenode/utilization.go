// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// Utilization returns the fraction of each pool that is in use: the mean over its counter sets and its devices
// without counters. A counter set counts by its most consumed counter.
func (inv *Inventory) Utilization(u Uses) iter.Seq2[pools.PoolID, float64] {
	return func(yield func(pools.PoolID, float64) bool) {
		for i := range inv.Pools {
			p := &inv.Pools[i]
			first, last := u.Of(p)
			if !yield(p.ID, p.utilization(u[first:last])) {
				return
			}
		}
	}
}

func (p *OwnPool) utilization(u Uses) float64 {
	if len(u) == 0 {
		return 0
	}
	type counter struct{ set, name string }
	used, consumed := 0.0, make(map[counter]float64)
	for i := range u {
		device := p.Devices[u[i].Device-p.First]
		if len(device.ConsumesCounters) == 0 {
			used += u[i].part(device)
		}
		for _, draw := range device.ConsumesCounters {
			for name, amount := range draw.Counters {
				consumed[counter{draw.CounterSet, name}] += amount.Value.AsApproximateFloat64()
			}
		}
	}
	for _, slice := range p.slices {
		for _, set := range slice.Spec.SharedCounters {
			most := 0.0
			for name, amount := range set.Counters {
				// A counter of zero cannot be consumed.
				if has := amount.Value.AsApproximateFloat64(); has > 0 {
					most = max(most, consumed[counter{set.Name, name}]/has)
				}
			}
			used += most
		}
	}
	return used / float64(p.units())
}

// units is the number of counter sets on which devices of the pool draw, and of devices without counters.
func (f *PoolFacts) units() int {
	plain, sets := 0, make(map[string]bool)
	for _, device := range f.Devices {
		if len(device.ConsumesCounters) == 0 {
			plain++
		}
		for _, draw := range device.ConsumesCounters {
			sets[draw.CounterSet] = true
		}
	}
	return plain + len(sets)
}

// part is the fraction of a device that is in use. For a device with shares, it is the fraction of its most
// consumed capacity, or 1 if the shares consume no capacity.
func (u use) part(device *resourceapi.Device) float64 {
	if u.Wholes > 0 || len(u.consumed) == 0 {
		return 1
	}
	most := 0.0
	for name, amount := range u.consumed {
		capacity := device.Capacity[name]
		if has := capacity.Value.AsApproximateFloat64(); has > 0 {
			most = max(most, amount.AsApproximateFloat64()/has)
		}
	}
	return most
}
