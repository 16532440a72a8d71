// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/shape"
)

// Source is one ResourceSlice in a builder, with everything that does not depend on other slices.
type Source struct {
	// Object is the slice.
	Object *resourceapi.ResourceSlice
	// arrival orders slices with the same name.
	arrival int
	// leftOut is set if the slice declares compatibility groups and their gate is off.
	leftOut bool
	// reach and shapes (one per device) are nil if the slice does not contribute.
	reach  *reach
	shapes []shape.Shape
}

// NewSource prepares a slice.
func NewSource(gates Gates, object *resourceapi.ResourceSlice, arrival int) *Source {
	s := &Source{Object: object, arrival: arrival}
	spec := &object.Spec
	s.leftOut = !gates.CompatibilityGroups && declaresGroups(spec.Devices)
	if s.leftOut || !gates.PartitionableDevices && (spec.PerDeviceNodeSelection != nil || len(spec.SharedCounters) > 0) {
		return s // it counts for completeness only
	}
	s.reach = newReach(object)
	if len(spec.SharedCounters) > 0 {
		return s // by the API, such a slice has no devices
	}
	s.shapes = make([]shape.Shape, len(spec.Devices))
	for i := range spec.Devices {
		s.shapes[i] = shape.Shape{Driver: spec.Driver, Device: &spec.Devices[i]}
	}
	return s
}

// PoolID returns the pool that the slice belongs to.
func (s *Source) PoolID() ID {
	return ID{Driver: s.Object.Spec.Driver, Name: s.Object.Spec.Pool.Name}
}

func (s *Source) generation() int64 { return s.Object.Spec.Pool.Generation }

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

// Assemble makes a Pool of all its sources, of any generation and in any order. There must be at least one.
func Assemble(id ID, slot int, gates Gates, sources []*Source) *Pool {
	sources = slices.Clone(sources)
	slices.SortFunc(sources, compareSources)
	p := &Pool{ID: id, Slot: slot, Generation: sources[0].generation()}
	for _, s := range sources {
		p.Generation = max(p.Generation, s.generation())
		if s.reach != nil && s.reach.canFail() {
			p.faulty = append(p.faulty, s.reach)
		}
	}
	current := slices.DeleteFunc(sources, func(s *Source) bool { return s.generation() != p.Generation })
	p.setCompleteness(current)
	p.addSlices(current)
	p.sortNames()
	if gates.PartitionableDevices && p.Incomplete == "" {
		p.setCounters()
	}
	p.setRoutes()
	p.idle = newIdleUsage(p)
	return p
}

func (p *Pool) addSlices(current []*Source) {
	var devices int
	for _, s := range current {
		devices += len(s.shapes)
	}
	p.Devices = make([]Device, 0, devices)
	for _, s := range current {
		if s.reach == nil {
			continue
		}
		slice := &Slice{Object: s.Object, First: DeviceIndex(len(p.Devices)), Count: int32(len(s.shapes)), reach: s.reach}
		p.Slices = append(p.Slices, slice)
		p.Optional = p.Optional || len(s.shapes) > 0 && len(s.Object.Spec.SkipNodeOperations) > 0
		for i := range s.shapes {
			object := s.shapes[i].Device
			p.Measured = p.Measured || len(object.Capacity) > 0
			p.Consuming = p.Consuming || len(object.ConsumesCounters) > 0
			p.Devices = append(p.Devices, Device{
				Object:           object,
				Slice:            slice,
				Shape:            &s.shapes[i],
				Multiple:         ptr.Deref(object.AllowMultipleAllocations, false),
				ConsumesCounters: len(object.ConsumesCounters) > 0,
				Plain:            isPlain(&s.Object.Spec, object),
			})
		}
	}
}

func isPlain(slice *resourceapi.ResourceSliceSpec, d *resourceapi.Device) bool {
	return slice.NodeName != nil && slice.NodeSelector == nil && !ptr.Deref(slice.PerDeviceNodeSelection, false) &&
		slice.SkipNodeOperations == nil && d.BindingConditions == nil && d.BindingFailureConditions == nil
}

// setCompleteness compares the number of slices with resourceSliceCount.
func (p *Pool) setCompleteness(current []*Source) {
	var counts []int64
	for _, s := range current {
		if !s.leftOut {
			counts = append(counts, s.Object.Spec.Pool.ResourceSliceCount)
		}
	}
	p.Present = int64(len(counts))
	p.SliceCount = current[0].Object.Spec.Pool.ResourceSliceCount
	if len(counts) > 0 {
		p.SliceCount = counts[0]
	}
	p.Incomplete = p.incompleteReason(counts)
	if leftOut := len(current) - len(counts); leftOut > 0 && p.Incomplete != "" {
		p.Incomplete += fmt.Sprintf(", %d left out because compatibility groups are not enabled", leftOut)
	}
}

// incompleteReason takes the resourceSliceCount of each slice that is present. It is empty if the pool is
// complete.
func (p *Pool) incompleteReason(counts []int64) string {
	switch {
	case len(counts) > 0 && slices.Min(counts) != slices.Max(counts):
		return fmt.Sprintf("slices of generation %d disagree on resourceSliceCount: %d and %d", p.Generation, slices.Min(counts), slices.Max(counts))
	case p.Present > p.SliceCount:
		return fmt.Sprintf("too many slices of generation %d: %d present, resourceSliceCount is %d", p.Generation, p.Present, p.SliceCount)
	case p.Present < p.SliceCount:
		return fmt.Sprintf("%d of %d slices of generation %d present", p.Present, p.SliceCount, p.Generation)
	}
	return ""
}
