// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DeviceID names a device in a cluster.
type DeviceID struct{ Driver, Pool, Device string }

// String is driver/pool/device.
func (d DeviceID) String() string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// counterID names a counter in a cluster.
type counterID struct{ driver, pool, set, counter string }

// Check returns a sentence for every device, capacity and counter that claims hold more of
// than there is. Devices that no slice describes are held like any other.
func Check(published []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim) []string {
	stock := newStock(published)
	held := make(map[DeviceID][]holding)
	for _, claim := range slices.SortedFunc(slices.Values(claims), compareClaims) {
		for id, holding := range holdings(claim) {
			held[id] = append(held[id], holding)
		}
	}
	var found []string
	for _, id := range slices.SortedFunc(maps.Keys(held), compareDevices) {
		found = append(found, conflicts(id, held[id])...)
		found = append(found, stock.overdrawn(id, held[id])...)
		stock.draw(id)
	}
	return append(found, stock.overspent()...)
}

func compareDevices(a, b DeviceID) int { return strings.Compare(a.String(), b.String()) }

// compareClaims makes sentences about the same claims the same.
func compareClaims(a, b *resourceapi.ResourceClaim) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// conflicts are the pairs of holders that exclude each other.
func conflicts(id DeviceID, held []holding) []string {
	var found []string
	for i, one := range held {
		for _, other := range held[:i] {
			if one.share == "" || one.share == other.share {
				found = append(found, fmt.Sprintf("device %s is held by %s and by %s", id, other, one))
			}
		}
	}
	return found
}

// stock is what has been published, and how much of its counters is left.
type stock struct {
	devices  map[DeviceID]resourceapi.Device
	counters map[counterID]resource.Quantity
}

func newStock(published []*resourceapi.ResourceSlice) *stock {
	s := &stock{devices: make(map[DeviceID]resourceapi.Device), counters: make(map[counterID]resource.Quantity)}
	for _, slice := range published {
		for _, device := range slice.Spec.Devices {
			s.devices[DeviceID{slice.Spec.Driver, slice.Spec.Pool.Name, device.Name}] = device
		}
		for _, set := range slice.Spec.SharedCounters {
			for name, counter := range set.Counters {
				s.counters[counterID{slice.Spec.Driver, slice.Spec.Pool.Name, set.Name, name}] = counter.Value.DeepCopy()
			}
		}
	}
	return s
}

// overdrawn are the capacities of which the shares add up to more than the device has.
func (s *stock) overdrawn(id DeviceID, held []holding) []string {
	var found []string
	capacities := s.devices[id].Capacity
	for _, name := range slices.Sorted(maps.Keys(capacities)) {
		var sum resource.Quantity
		for _, holding := range held {
			sum.Add(holding.consumed[name])
		}
		if whole := capacities[name].Value; sum.Cmp(whole) > 0 {
			found = append(found, fmt.Sprintf("device %s: claims hold %s of its %s %s", id, &sum, &whole, name))
		}
	}
	return found
}

// draw takes what a device in use consumes, once however many share it.
func (s *stock) draw(id DeviceID) {
	for _, consumption := range s.devices[id].ConsumesCounters {
		for name, counter := range consumption.Counters {
			key := counterID{id.Driver, id.Pool, consumption.CounterSet, name}
			// The slice with the counters may be gone already.
			if left, known := s.counters[key]; known {
				left.Sub(counter.Value)
				s.counters[key] = left
			}
		}
	}
}

func (s *stock) overspent() []string {
	var found []string
	for key, left := range s.counters {
		if left.Sign() < 0 {
			left.Neg()
			found = append(found, fmt.Sprintf("pool %s/%s: devices in use consume %s too much of %s in counter set %s", key.driver, key.pool, &left, key.counter, key.set))
		}
	}
	slices.Sort(found)
	return found
}
