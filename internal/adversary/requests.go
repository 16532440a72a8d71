package adversary

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func (m *mutator) copyRequest() {
	claim, r := m.request()
	if r == nil {
		return
	}
	copied := r.DeepCopy()
	copied.Name = freshName("r", func(name string) bool { return requestNamed(claim, name) })
	claim.Requests = slices.Insert(claim.Requests, m.rand.IntN(len(claim.Requests)+1), *copied)
}

func requestNamed(claim *resourceapi.DeviceClaim, name string) bool {
	return slices.ContainsFunc(claim.Requests, func(r resourceapi.DeviceRequest) bool { return r.Name == name })
}

func (m *mutator) dropRequest() {
	claim, r := m.request()
	if r == nil {
		return
	}
	name := r.Name
	claim.Requests = slices.DeleteFunc(claim.Requests, func(r resourceapi.DeviceRequest) bool { return r.Name == name })
	mend(claim)
}

func (m *mutator) swapRequests() {
	claim, r := m.request()
	if r != nil {
		other := &claim.Requests[m.rand.IntN(len(claim.Requests))]
		*r, *other = *other, *r
	}
}

// asked are the fields that requests and subrequests have in common.
type asked struct {
	class     *string
	selectors *[]resourceapi.DeviceSelector
	mode      *resourceapi.DeviceAllocationMode
	count     *int64
	capacity  **resourceapi.CapacityRequirements
}

// asked is any exact request or subrequest, false if there is none.
func (m *mutator) asked() (asked, bool) {
	_, r := m.request()
	switch {
	case r == nil:
		return asked{}, false
	case r.Exactly != nil:
		e := r.Exactly
		return asked{&e.DeviceClassName, &e.Selectors, &e.AllocationMode, &e.Count, &e.Capacity}, true
	case len(r.FirstAvailable) == 0:
		return asked{}, false
	}
	s := &r.FirstAvailable[m.rand.IntN(len(r.FirstAvailable))]
	return asked{&s.DeviceClassName, &s.Selectors, &s.AllocationMode, &s.Count, &s.Capacity}, true
}

func (m *mutator) moreDevices() {
	if a, ok := m.asked(); ok && *a.mode == resourceapi.DeviceAllocationModeExactCount {
		*a.count++
	}
}

func (m *mutator) fewerDevices() {
	if a, ok := m.asked(); ok && *a.count > 1 {
		*a.count--
	}
}

// askForAll is drawn half as often as its opposite: few devices left to chance make
// easy problems.
func (m *mutator) askForAll() {
	a, ok := m.asked()
	switch {
	case !ok:
	case *a.mode == resourceapi.DeviceAllocationModeAll:
		*a.mode, *a.count = resourceapi.DeviceAllocationModeExactCount, 1
	case m.chance(0.5):
		*a.mode, *a.count = resourceapi.DeviceAllocationModeAll, 0
	}
}

func (m *mutator) askAsAdmin() {
	if _, r := m.request(); r != nil && r.Exactly != nil {
		if r.Exactly.AdminAccess == nil {
			r.Exactly.AdminAccess = ptr.To(true)
		} else {
			r.Exactly.AdminAccess = nil
		}
	}
}

func (m *mutator) setClass() {
	if a, ok := m.asked(); ok && len(m.c.Classes) > 0 {
		*a.class = pick(m, m.c.Classes).Name
	}
}

func (m *mutator) setSelector() {
	if a, ok := m.asked(); ok {
		*a.selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: m.expression()}}}
	}
}

// expression tells devices apart by an attribute. The last kind is an error on devices
// that lack it.
func (m *mutator) expression() string {
	driver := pick(m, []string{"gpu.example.com", "nic.example.com"})
	letter := func() rune { return rune('a' + m.rand.IntN(6)) }
	switch m.rand.IntN(6) {
	case 0:
		return fmt.Sprintf(`device.attributes[%q].?model.orValue("") in ["%c", "%c"]`, driver, letter(), letter())
	case 1:
		return fmt.Sprintf(`device.attributes[%q].?model.orValue("") != "%c"`, driver, letter())
	case 2:
		return fmt.Sprintf(`device.attributes[%q].?numa.orValue(0) >= %d`, driver, m.rand.IntN(4))
	case 3:
		return fmt.Sprintf(`device.attributes["shared.example.com"].?root.orValue("") <= "%c"`, letter())
	case 4:
		return fmt.Sprintf(`"links" in device.attributes[%q] && device.attributes[%q].links.includes(%d)`, driver, driver, m.rand.IntN(5))
	}
	return fmt.Sprintf(`device.attributes[%q].spare < %d`, driver, 1+m.rand.IntN(5))
}

func (m *mutator) dropSelectors() {
	if a, ok := m.asked(); ok {
		*a.selectors = nil
	}
}

func (m *mutator) askForCapacity() {
	a, ok := m.asked()
	if !ok {
		return
	}
	*a.capacity = nil
	if m.chance(0.8) {
		*a.capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{pick(m, capacityNames): m.quantity(7)}}
	}
}
