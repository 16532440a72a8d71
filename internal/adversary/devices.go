package adversary

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func (m *mutator) copyDevice() {
	s, d := m.device()
	if d == nil {
		return
	}
	copied := d.DeepCopy()
	copied.Name = freshName("d", func(name string) bool { return m.published(s, name) })
	s.Spec.Devices = slices.Insert(s.Spec.Devices, m.rand.IntN(len(s.Spec.Devices)+1), *copied)
}

// published tells whether a device of the name is in the slice's pool.
func (m *mutator) published(s *resourceapi.ResourceSlice, name string) bool {
	return slices.ContainsFunc(m.c.Slices, func(other *resourceapi.ResourceSlice) bool {
		return other.Spec.Driver == s.Spec.Driver && other.Spec.Pool.Name == s.Spec.Pool.Name &&
			slices.ContainsFunc(other.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == name })
	})
}

func (m *mutator) dropDevice() {
	if s := m.slice(); s != nil {
		i := m.rand.IntN(len(s.Spec.Devices))
		s.Spec.Devices = slices.Delete(s.Spec.Devices, i, i+1)
	}
}

func (m *mutator) swapDevices() {
	if s := m.slice(); s != nil {
		i, j := m.rand.IntN(len(s.Spec.Devices)), m.rand.IntN(len(s.Spec.Devices))
		s.Spec.Devices[i], s.Spec.Devices[j] = s.Spec.Devices[j], s.Spec.Devices[i]
	}
}

// equalDevice gives a device the content of another of its slice.
func (m *mutator) equalDevice() {
	s, d := m.device()
	if d == nil {
		return
	}
	name := d.Name
	*d = *s.Spec.Devices[m.rand.IntN(len(s.Spec.Devices))].DeepCopy()
	d.Name = name
}

// attributeNames are those which selectors and constraints of generated cases read.
var attributeNames = []resourceapi.QualifiedName{"model", "numa", "links", "lanes", "shared.example.com/root", "spare"}

func (m *mutator) setAttribute() {
	_, d := m.device()
	if d == nil {
		return
	}
	if d.Attributes == nil {
		d.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	}
	name := pick(m, attributeNames)
	d.Attributes[name] = m.attribute(name)
}

func (m *mutator) attribute(name resourceapi.QualifiedName) resourceapi.DeviceAttribute {
	values := 2 + m.rand.IntN(5)
	switch name {
	case "links":
		return resourceapi.DeviceAttribute{IntValues: some(m, values, func(i int) int64 { return int64(i) })}
	case "lanes":
		return resourceapi.DeviceAttribute{StringValues: some(m, values, func(i int) string { return fmt.Sprintf("l%d", i) })}
	case "numa", "spare":
		return resourceapi.DeviceAttribute{IntValue: ptr.To(int64(m.rand.IntN(values)))}
	}
	return resourceapi.DeviceAttribute{StringValue: ptr.To(string(rune('a' + m.rand.IntN(values))))}
}

// some is a choice of so many values, never empty.
func some[T any](m *mutator, values int, value func(int) T) []T {
	var chosen []T
	for i := range values {
		if m.chance(0.4) {
			chosen = append(chosen, value(i))
		}
	}
	if len(chosen) == 0 {
		return []T{value(m.rand.IntN(values))}
	}
	return chosen
}

func (m *mutator) dropAttribute() {
	if _, d := m.device(); d != nil {
		delete(d.Attributes, pick(m, attributeNames))
	}
}

var capacityNames = []resourceapi.QualifiedName{"memory", "bandwidth"}

func (m *mutator) setCapacity() {
	_, d := m.device()
	if d == nil {
		return
	}
	if d.Capacity == nil {
		d.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
	}
	capacity := resourceapi.DeviceCapacity{Value: m.quantity(12)}
	if ptr.Deref(d.AllowMultipleAllocations, false) {
		capacity.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr.To(m.quantity(1))}
	}
	d.Capacity[pick(m, capacityNames)] = capacity
}

// setShared makes a device shareable, or not. Only capacities of shareable devices may
// have a policy.
func (m *mutator) setShared() {
	_, d := m.device()
	if d == nil {
		return
	}
	if d.AllowMultipleAllocations == nil {
		d.AllowMultipleAllocations = ptr.To(true)
		return
	}
	d.AllowMultipleAllocations = nil
	for name, capacity := range d.Capacity {
		d.Capacity[name] = resourceapi.DeviceCapacity{Value: capacity.Value}
	}
}

// use allocates a device to a claim that is not asked about.
func (m *mutator) use() {
	s, d := m.device()
	if d == nil || ptr.Deref(d.AllowMultipleAllocations, false) {
		return
	}
	name := freshName("used-", func(name string) bool {
		return slices.ContainsFunc(m.c.Allocated, func(c *resourceapi.ResourceClaim) bool { return c.Name == name })
	})
	m.c.Allocated = append(m.c.Allocated, holding(name, s, d))
}

func holding(name string, s *resourceapi.ResourceSlice, d *resourceapi.Device) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = "default", name, types.UID(name)
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r0", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "any", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "r0", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name,
		}},
	}}
	return claim
}

func (m *mutator) free() {
	if n := len(m.c.Allocated); n > 0 {
		i := m.rand.IntN(n)
		m.c.Allocated = slices.Delete(m.c.Allocated, i, i+1)
	}
}
