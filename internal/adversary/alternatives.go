package adversary

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// prioritize turns an exact request into a prioritized one, or back.
func (m *mutator) prioritize() {
	_, r := m.request()
	switch {
	case r == nil:
	case r.Exactly != nil && r.Exactly.AdminAccess == nil:
		r.FirstAvailable = []resourceapi.DeviceSubRequest{subrequest("s0", r.Exactly)}
		r.Exactly = nil
	case len(r.FirstAvailable) > 0:
		s := &r.FirstAvailable[0]
		r.Exactly = &resourceapi.ExactDeviceRequest{
			DeviceClassName: s.DeviceClassName, Selectors: s.Selectors, AllocationMode: s.AllocationMode, Count: s.Count,
			Tolerations: s.Tolerations, Capacity: s.Capacity, DerivedAttributes: s.DerivedAttributes,
		}
		r.FirstAvailable = nil
	}
	m.mendAll()
}

func subrequest(name string, e *resourceapi.ExactDeviceRequest) resourceapi.DeviceSubRequest {
	return resourceapi.DeviceSubRequest{
		Name: name, DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode, Count: e.Count,
		Tolerations: e.Tolerations, Capacity: e.Capacity, DerivedAttributes: e.DerivedAttributes,
	}
}

// addAlternative copies one, or what another request asks for.
func (m *mutator) addAlternative() {
	claim, r := m.request()
	if r == nil || len(r.FirstAvailable) == 0 {
		return
	}
	name := freshName("s", func(name string) bool {
		return slices.ContainsFunc(r.FirstAvailable, func(s resourceapi.DeviceSubRequest) bool { return s.Name == name })
	})
	added := *r.FirstAvailable[m.rand.IntN(len(r.FirstAvailable))].DeepCopy()
	if other := &claim.Requests[m.rand.IntN(len(claim.Requests))]; other.Exactly != nil {
		added = subrequest(name, other.Exactly.DeepCopy())
	}
	added.Name = name
	r.FirstAvailable = append(r.FirstAvailable, added)
}

func (m *mutator) dropAlternative() {
	if _, r := m.request(); r != nil && len(r.FirstAvailable) > 1 {
		i := m.rand.IntN(len(r.FirstAvailable))
		r.FirstAvailable = slices.Delete(r.FirstAvailable, i, i+1)
	}
	m.mendAll()
}

func (m *mutator) swapAlternatives() {
	if _, r := m.request(); r != nil && len(r.FirstAvailable) > 1 {
		i, j := m.rand.IntN(len(r.FirstAvailable)), m.rand.IntN(len(r.FirstAvailable))
		r.FirstAvailable[i], r.FirstAvailable[j] = r.FirstAvailable[j], r.FirstAvailable[i]
	}
}
