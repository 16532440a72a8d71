package pool

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
)

// Assemble makes a Pool of all its sources, of any generation and in any order.
// There must be at least one.
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
	p.routes.sort()
	p.settle()
	if gates.PartitionableDevices && p.Incomplete == "" {
		p.setCounters()
	}
	p.idle = newIdleUsage(p)
	return p
}

// settle finds out whether names of nodes decide who reaches the pool.
func (p *Pool) settle() {
	for _, slice := range p.Slices {
		p.choosy = p.choosy || !slice.reach.byName()
	}
	if p.choosy {
		p.choice = newChoice(p.Slices)
	}
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
		p.routes.add(len(p.Slices), s.reach)
		p.Slices = append(p.Slices, slice)
		for i, shared := range s.shapes {
			object := &s.Object.Spec.Devices[i]
			p.Devices = append(p.Devices, Device{
				Object:           object,
				Slice:            slice,
				Shape:            shared.Shape(),
				Multiple:         ptr.Deref(object.AllowMultipleAllocations, false),
				ConsumesCounters: len(object.ConsumesCounters) > 0,
			})
		}
	}
}

// setCompleteness compares the number of slices with what the slices say of it.
func (p *Pool) setCompleteness(current []*Source) {
	var leftOut int
	var counts []int64
	for _, s := range current {
		if s.leftOut {
			leftOut++
			continue
		}
		counts = append(counts, s.Object.Spec.Pool.ResourceSliceCount)
	}
	p.Present = int64(len(counts))
	p.SliceCount = current[0].Object.Spec.Pool.ResourceSliceCount
	if len(counts) > 0 {
		p.SliceCount = counts[0]
	}
	p.Incomplete = p.incompleteReason(counts)
	if leftOut > 0 && p.Incomplete != "" {
		p.Incomplete += fmt.Sprintf(", %d left out because compatibility groups are not enabled", leftOut)
	}
}

// incompleteReason takes the resourceSliceCount of each slice that is present.
func (p *Pool) incompleteReason(counts []int64) string {
	smallest, largest := extremes(counts)
	switch {
	case smallest != largest:
		return fmt.Sprintf("slices of generation %d disagree on resourceSliceCount: %d and %d", p.Generation, smallest, largest)
	case p.Present > p.SliceCount:
		return fmt.Sprintf("too many slices of generation %d: %d present, resourceSliceCount is %d", p.Generation, p.Present, p.SliceCount)
	case p.Present < p.SliceCount:
		return fmt.Sprintf("%d of %d slices of generation %d present", p.Present, p.SliceCount, p.Generation)
	}
	return ""
}

func extremes(counts []int64) (smallest, largest int64) {
	if len(counts) == 0 {
		return 0, 0
	}
	return slices.Min(counts), slices.Max(counts)
}
