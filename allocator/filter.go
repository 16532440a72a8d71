package allocator

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// filter is what decides about single devices, without regard to other choices:
// selectors, tolerations, capacity, admin access. It is immutable but for what it keeps of
// its judgements, and equal ones are the same for all problems of an Allocator, so that
// shapes are judged once.
type filter struct {
	*selection
	// id is unique within the Allocator.
	id          int64
	features    Features
	admin       bool
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	judgements  judgements
}

// usedFilter is a filter in a Problem.
type usedFilter struct {
	*filter
	// mandatory is set if a request wants all devices that match.
	mandatory bool
}

// maxFilters is how many filters an Allocator keeps for problems to come.
const maxFilters = 1024

// use returns the position in Problem.filters of the filter for a class and request.
func (c *compiler) use(class *resourceapi.DeviceClass, t terms) (int, error) {
	c.key.text = c.key.text[:0]
	c.key.selection(class, t.selectors)
	c.key.filter(t)
	position, known := c.filters[string(c.key.text)]
	if !known {
		f, err := c.problem.allocator.filter(class, t)
		if err != nil {
			return 0, err
		}
		position = len(c.problem.filters)
		c.filters[string(c.key.text)] = position
		c.problem.filters = append(c.problem.filters, usedFilter{filter: f})
	}
	if t.mode == resourceapi.DeviceAllocationModeAll {
		c.problem.filters[position].mandatory = true
	}
	return position, nil
}

// filter makes a filter, or returns the one made for the same content.
func (a *Allocator) filter(class *resourceapi.DeviceClass, t terms) (*filter, error) {
	selected, err := a.selection(class, t.selectors)
	if err != nil {
		return nil, err
	}
	var buffer [signatureSize]byte
	key := spelling{text: buffer[:0]}
	key.serial(selected.id)
	key.filter(t)
	if known, ok := a.filters.Get(string(key.text)); ok && known.(*filter).selection == selected {
		return known.(*filter), nil
	}
	// The filter outlives the claim, so it has copies of its own.
	f := &filter{
		selection: selected, id: a.filterIDs.Add(1), features: a.features, admin: ptr.Deref(t.admin, false),
		capacity: t.capacity.DeepCopy(), tolerations: slices.Clone(t.tolerations),
	}
	for i := range f.tolerations {
		f.tolerations[i].TolerationSeconds = nil // says nothing about devices
	}
	a.filters.Add(string(key.text), f)
	return f, nil
}

// filter spells what a filter is beside a selection.
func (s *spelling) filter(t terms) {
	s.flags(ptr.Deref(t.admin, false), t.capacity != nil)
	s.tolerations(t.tolerations)
	if t.capacity != nil {
		s.quantities(t.capacity.Requests)
	}
}

// tolerations spells what tolerations say about devices.
func (s *spelling) tolerations(all []resourceapi.DeviceToleration) {
	s.number(uint32(len(all)))
	for i := range all {
		s.string(all[i].Key)
		s.string(string(all[i].Operator))
		s.string(all[i].Value)
		s.string(string(all[i].Effect))
	}
}

// quantities spells out what is requested. The text of a quantity does not: beyond the
// largest suffix, 1000000000000000000000 is written as 1.
func (s *spelling) quantities(asked map[resourceapi.QualifiedName]resource.Quantity) {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		quantity := asked[name]
		number := quantity.AsDec() // of the copy that quantity is
		s.string(string(name))
		s.flags(number.UnscaledBig().Sign() < 0)
		s.string(string(number.UnscaledBig().Bytes()))
		s.number(uint32(number.Scale()))
		s.string(string(quantity.Format))
	}
}
