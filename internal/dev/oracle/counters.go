// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// charging returns the placements that draw from counters: every one, except further
// shares of a device that is shared already.
func (w *world) charging(placements []placement) []placement {
	var charged []placement
	for i, p := range placements {
		again := w.shares[p.device.id] != nil || slices.ContainsFunc(placements[:i], func(other placement) bool {
			return other.device == p.device
		})
		if len(p.device.api.ConsumesCounters) > 0 && !(w.shared(p.device) && again) {
			charged = append(charged, p)
		}
	}
	return charged
}

// checkCounters: no counter of a pool that placements draw from may be overdrawn by
// them and by the devices in use anywhere in the pool.
func (w *world) checkCounters(placements []placement) error {
	perPool := make(map[*pool]amounts)
	for _, p := range w.charging(placements) {
		used := perPool[p.device.pool]
		if used == nil {
			used = w.countersInUse(p.device.pool)
			perPool[p.device.pool] = used
		}
		used.consume(p.device.api)
	}
	for p, used := range perPool {
		for _, slice := range p.all {
			for _, set := range slice.Spec.SharedCounters {
				for name, counter := range set.Counters {
					if total := used[set.Name+"/"+name]; total.Cmp(counter.Value) > 0 {
						return fmt.Errorf("pool %s: counter %s/%s: %s of %s used", p.name, set.Name, name, total.String(), counter.Value.String())
					}
				}
			}
		}
	}
	return nil
}

func (w *world) countersInUse(p *pool) amounts {
	used := make(amounts)
	w.eachInUse(p, used.consume)
	return used
}

func (w *world) eachInUse(p *pool, visit func(*resourceapi.Device)) {
	for _, slice := range p.all {
		for i := range slice.Spec.Devices {
			if w.inUse(deviceID{p.driver, p.name, slice.Spec.Devices[i].Name}) {
				visit(&slice.Spec.Devices[i])
			}
		}
	}
}

func (a amounts) consume(d *resourceapi.Device) {
	for _, consumption := range d.ConsumesCounters {
		for name, counter := range consumption.Counters {
			a.add(consumption.CounterSet+"/"+name, counter.Value)
		}
	}
}
