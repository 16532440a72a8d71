package adversary

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// counterSets of the pool that a slice belongs to.
func (m *mutator) counterSets(s *resourceapi.ResourceSlice) []*resourceapi.CounterSet {
	var sets []*resourceapi.CounterSet
	for _, other := range m.c.Slices {
		if other.Spec.Driver == s.Spec.Driver && other.Spec.Pool.Name == s.Spec.Pool.Name {
			for i := range other.Spec.SharedCounters {
				sets = append(sets, &other.Spec.SharedCounters[i])
			}
		}
	}
	return sets
}

// setConsumption makes a device draw from a counter set.
func (m *mutator) setConsumption() {
	s, d := m.device()
	if d == nil {
		return
	}
	sets := m.counterSets(s)
	if len(sets) == 0 {
		return
	}
	set := pick(m, sets)
	consumption := consumptionOf(d, set.Name)
	for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
		if m.chance(0.8) {
			put(&consumption.Counters, name, m.quantity(8))
		}
	}
	if len(consumption.Counters) == 0 {
		d.ConsumesCounters = slices.DeleteFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return c.CounterSet == set.Name })
	}
}

// consumptionOf is what a device draws from a counter set, which it adds if need be.
func consumptionOf(d *resourceapi.Device, set string) *resourceapi.DeviceCounterConsumption {
	for i := range d.ConsumesCounters {
		if d.ConsumesCounters[i].CounterSet == set {
			return &d.ConsumesCounters[i]
		}
	}
	d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{
		CounterSet: set,
	})
	return &d.ConsumesCounters[len(d.ConsumesCounters)-1]
}

func (m *mutator) dropConsumption() {
	if _, d := m.device(); d != nil && len(d.ConsumesCounters) > 0 {
		i := m.rand.IntN(len(d.ConsumesCounters))
		d.ConsumesCounters = slices.Delete(d.ConsumesCounters, i, i+1)
	}
}

// put sets one of several counters. There are none yet in a case that was read from a file
// after the last one was taken away.
func put(counters *map[string]resourceapi.Counter, name string, value resource.Quantity) {
	if *counters == nil {
		*counters = make(map[string]resourceapi.Counter)
	}
	(*counters)[name] = resourceapi.Counter{Value: value}
}

// setCounter changes what there is of a counter.
func (m *mutator) setCounter() {
	s := m.slice()
	if s == nil {
		return
	}
	if sets := m.counterSets(s); len(sets) > 0 {
		set := pick(m, sets)
		name := pick(m, []string{"memory", "slices"})
		put(&set.Counters, name, m.quantity(16))
	}
}

func (m *mutator) setGroups() {
	if _, d := m.device(); d != nil && len(d.ConsumesCounters) > 0 {
		d.ConsumesCounters[m.rand.IntN(len(d.ConsumesCounters))].CompatibilityGroups = pick(m, [][]string{nil, {"mig"}, {"mps"}, {"mig", "mps"}})
	}
}
