// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/internal/quantity"
)

// setCounters resolves counter sets and the consumption of devices. If that fails, it sets Invalid and the pool
// has no counters.
func (p *Pool) setCounters() {
	p.addCounterSets()
	if p.Invalid == "" {
		p.resolveDevices()
	}
	if p.Invalid == "" {
		return
	}
	p.CounterSets, p.Counters, p.consumers = nil, nil, nil
	for i := range p.Devices {
		p.Devices[i].Uses, p.Devices[i].Groups = nil, nil
	}
}

func (p *Pool) addCounterSets() {
	var published []*resourceapi.CounterSet
	for _, slice := range p.Slices {
		for i := range slice.Object.Spec.SharedCounters {
			published = append(published, &slice.Object.Spec.SharedCounters[i])
		}
	}
	slices.SortStableFunc(published, func(a, b *resourceapi.CounterSet) int { return strings.Compare(a.Name, b.Name) })
	for i, set := range published {
		if i > 0 && published[i-1].Name == set.Name {
			p.Invalid = fmt.Sprintf("duplicate counter set name %q", set.Name)
			return
		}
		if p.addCounterSet(set); p.Invalid != "" {
			return
		}
	}
	p.consumers = make([][]DeviceIndex, len(p.CounterSets))
}

func (p *Pool) addCounterSet(set *resourceapi.CounterSet) {
	first := CounterIndex(len(p.Counters))
	for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
		total := set.Counters[name].Value
		if !quantity.InRange(total) {
			p.Invalid = fmt.Sprintf("counter %q of counter set %q is out of range", name, set.Name)
			return
		}
		p.Counters = append(p.Counters, Counter{
			Set:      CounterSetIndex(len(p.CounterSets)),
			Name:     name,
			Total:    quantity.Amount(total),
			Quantity: total.DeepCopy(),
		})
	}
	p.CounterSets = append(p.CounterSets, CounterSet{Name: set.Name, First: first, Count: CounterIndex(len(set.Counters))})
}

func (p *Pool) resolveDevices() {
	p.hasGroups = slices.ContainsFunc(p.Slices, func(s *Slice) bool { return declaresGroups(s.Object.Spec.Devices) })
	for i := range p.Devices {
		for j := range p.Devices[i].Object.ConsumesCounters {
			if p.resolve(DeviceIndex(i), &p.Devices[i].Object.ConsumesCounters[j]); p.Invalid != "" {
				return
			}
		}
	}
}

func (p *Pool) resolve(i DeviceIndex, consumed *resourceapi.DeviceCounterConsumption) {
	device := &p.Devices[i]
	set, found := p.counterSet(consumed.CounterSet)
	if !found {
		p.Invalid = fmt.Sprintf("device %q consumes unknown counter set %q", device.Object.Name, consumed.CounterSet)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(consumed.Counters)) {
		counter, found := p.counter(set, name)
		if !found {
			p.Invalid = fmt.Sprintf("device %q consumes unknown counter %q of counter set %q", device.Object.Name, name, consumed.CounterSet)
			return
		}
		if !quantity.InRange(consumed.Counters[name].Value) {
			p.Invalid = fmt.Sprintf("device %q: what it consumes of counter %q of counter set %q is out of range", device.Object.Name, name, consumed.CounterSet)
			return
		}
		takes := quantity.Amount(consumed.Counters[name].Value)
		p.UseEnables = p.UseEnables || device.Multiple || takes.Sign() < 0
		at, several := slices.BinarySearchFunc(device.Uses, counter, func(u CounterUse, c CounterIndex) int { return cmp.Compare(u.Counter, c) })
		if several { // by the API, a device has one entry for each counter set
			takes = takes.Add(device.Uses[at].Amount)
			device.Uses = slices.Delete(device.Uses, at, at+1)
		}
		device.Uses = slices.Insert(device.Uses, at, CounterUse{Counter: counter, Amount: takes})
	}
	if !p.hasGroups {
		return
	}
	use := GroupUse{Set: set}
	if len(consumed.CompatibilityGroups) > 0 {
		use.Groups = sets.List(sets.New(consumed.CompatibilityGroups...))
	}
	device.Groups = append(device.Groups, use)
	if users := p.consumers[set]; len(users) == 0 || users[len(users)-1] != i {
		p.consumers[set] = append(users, i)
	}
}

func (p *Pool) counterSet(name string) (CounterSetIndex, bool) {
	i, found := slices.BinarySearchFunc(p.CounterSets, name, func(s CounterSet, name string) int {
		return strings.Compare(s.Name, name)
	})
	return CounterSetIndex(i), found
}

func (p *Pool) counter(set CounterSetIndex, name string) (CounterIndex, bool) {
	s := p.CounterSets[set]
	i, found := slices.BinarySearchFunc(p.Counters[s.First:s.First+s.Count], name, func(c Counter, name string) int {
		return strings.Compare(c.Name, name)
	})
	return s.First + CounterIndex(i), found
}
