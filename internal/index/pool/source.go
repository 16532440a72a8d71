package pool

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/shape"
)

// Source is one ResourceSlice as the builder keeps it, with everything that does
// not depend on other slices.
type Source struct {
	// Object is the slice.
	Object *resourceapi.ResourceSlice
	// arrival orders slices of the same name.
	arrival int
	// leftOut: the slice declares compatibility groups while these are gated off.
	leftOut bool
	// passedOver: the slice counts, but contributes nothing because it uses what
	// partitionable devices are needed for while these are gated off.
	passedOver bool
	// reach and shapes (one per device) are nil unless the slice contributes.
	reach  *reach
	shapes []*shape.Shared
}

// NewSource reads a slice. old is one that has much in common with it, or nil.
func NewSource(gates Gates, shapes *shape.Set, object *resourceapi.ResourceSlice, arrival int, old *Source) *Source {
	s := &Source{Object: object, arrival: arrival}
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
	s.shapes = make([]*shape.Shared, len(spec.Devices))
	for i := range spec.Devices {
		var before *shape.Shared
		if old != nil && i < len(old.shapes) {
			before = old.shapes[i]
		}
		s.shapes[i] = shapes.Acquire(spec.Driver, &spec.Devices[i], arrival, before)
	}
	return s
}

// Release gives up the shapes of the source.
func (s *Source) Release(shapes *shape.Set) {
	for _, shared := range s.shapes {
		shapes.Release(shared)
	}
}

// Renew keeps the source from holding on to slices that it replaced.
func (s *Source) Renew() {
	for i, shared := range s.shapes {
		shared.Renew(s.Object.Spec.Driver, &s.Object.Spec.Devices[i], s.arrival)
	}
}

// PoolID returns the pool that the slice belongs to.
func (s *Source) PoolID() ID {
	return ID{Driver: s.Object.Spec.Driver, Name: s.Object.Spec.Pool.Name}
}

func (s *Source) generation() int64 { return s.Object.Spec.Pool.Generation }

func (s *Source) hasCounterSets() bool { return len(s.Object.Spec.SharedCounters) > 0 }

func compareSources(a, b *Source) int {
	if c := strings.Compare(a.Object.Name, b.Object.Name); c != 0 {
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
