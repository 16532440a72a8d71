package pools

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// source is one ResourceSlice as the builder keeps it, with everything that does
// not depend on other slices.
type source struct {
	object *resourceapi.ResourceSlice
	// arrival orders slices of the same name.
	arrival int
	// leftOut: the slice declares compatibility groups while these are gated off.
	leftOut bool
	// passedOver: the slice counts, but contributes nothing because it uses what
	// partitionable devices are needed for while these are gated off.
	passedOver bool
	// reach and shapes (one per device) are nil unless the slice contributes.
	reach  *reach
	shapes []*sharedShape
}

// newSource reads a slice. old is one that has much in common with it, or nil.
func newSource(gates Gates, shapes *shapes, object *resourceapi.ResourceSlice, arrival int, old *source) *source {
	s := &source{object: object, arrival: arrival}
	spec := &object.Spec
	s.leftOut = !gates.CompatibilityGroups && declaresGroups(spec.Devices)
	s.passedOver = !gates.PartitionableDevices && (spec.PerDeviceNodeSelection != nil || len(spec.SharedCounters) > 0)
	if s.leftOut || s.passedOver {
		return s
	}
	s.reach = newReach(object)
	if s.hasCounterSets() {
		return s
	}
	s.shapes = make([]*sharedShape, len(spec.Devices))
	for i := range spec.Devices {
		var before *sharedShape
		if old != nil && i < len(old.shapes) {
			before = old.shapes[i]
		}
		s.shapes[i] = shapes.acquire(spec.Driver, &spec.Devices[i], arrival, before)
	}
	return s
}

func (s *source) release(shapes *shapes) {
	for _, shared := range s.shapes {
		shapes.release(shared)
	}
}

// renew makes shapes anew that only this source uses and another one brought, which is
// gone: they have its attributes, and would keep them for as long as devices are alike.
func (s *source) renew() {
	for i, shared := range s.shapes {
		if shared.uses == 1 && shared.arrival != s.arrival {
			shared.shape, shared.arrival = newShape(s.object.Spec.Driver, &s.object.Spec.Devices[i]), s.arrival
		}
	}
}

func (s *source) poolID() PoolID {
	return PoolID{Driver: s.object.Spec.Driver, Name: s.object.Spec.Pool.Name}
}

func (s *source) generation() int64 { return s.object.Spec.Pool.Generation }

func (s *source) hasCounterSets() bool { return len(s.object.Spec.SharedCounters) > 0 }

func compareSources(a, b *source) int {
	if c := strings.Compare(a.object.Name, b.object.Name); c != 0 {
		return c
	}
	return a.arrival - b.arrival
}

func declaresGroups(devices []resourceapi.Device) bool {
	for i := range devices {
		for j := range devices[i].ConsumesCounters {
			if len(devices[i].ConsumesCounters[j].CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}
