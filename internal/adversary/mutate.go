package adversary

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/alloctest"
)

// mutator changes a case that belongs to it.
type mutator struct {
	rand *rand.Rand
	c    *alloctest.Case
}

// mutation changes something, or nothing if the case has nothing for it.
type mutation func(*mutator)

// mutations are repeated by how often they should be drawn.
var mutations = []mutation{
	(*mutator).copyDevice, (*mutator).copyDevice, (*mutator).dropDevice, (*mutator).swapDevices, (*mutator).equalDevice,
	(*mutator).setAttribute, (*mutator).setAttribute, (*mutator).setAttribute, (*mutator).dropAttribute,
	(*mutator).setConsumption, (*mutator).setConsumption, (*mutator).dropConsumption, (*mutator).setCounter,
	(*mutator).setGroups, (*mutator).setCapacity, (*mutator).setShared, (*mutator).use, (*mutator).free,
	(*mutator).copyRequest, (*mutator).copyRequest, (*mutator).copyRequest, (*mutator).dropRequest, (*mutator).swapRequests,
	(*mutator).moreDevices, (*mutator).moreDevices, (*mutator).fewerDevices, (*mutator).askForAll, (*mutator).askAsAdmin,
	(*mutator).setSelector, (*mutator).setSelector, (*mutator).dropSelectors, (*mutator).setClass, (*mutator).askForCapacity,
	(*mutator).prioritize, (*mutator).addAlternative, (*mutator).dropAlternative, (*mutator).swapAlternatives,
	(*mutator).addConstraint, (*mutator).addConstraint, (*mutator).dropConstraint, (*mutator).turnConstraint, (*mutator).coverOthers,
	(*mutator).copyClaim, (*mutator).dropClaim, (*mutator).swapClaims, (*mutator).splitClaim,
}

// mutate returns a copy with one to four changes. It may be beyond the limits.
func mutate(r *rand.Rand, c *alloctest.Case) *alloctest.Case {
	m := &mutator{rand: r, c: c.DeepCopy()}
	for range 1 + r.IntN(2)*r.IntN(4) {
		mutations[r.IntN(len(mutations))](m)
	}
	return m.c
}

func pick[T any](m *mutator, choices []T) T { return choices[m.rand.IntN(len(choices))] }

func (m *mutator) chance(p float64) bool { return m.rand.Float64() < p }

func (m *mutator) quantity(below int) resource.Quantity {
	return *resource.NewQuantity(int64(1+m.rand.IntN(below)), resource.DecimalSI)
}

// slice is one with devices, nil if there is none.
func (m *mutator) slice() *resourceapi.ResourceSlice {
	var some []*resourceapi.ResourceSlice
	for _, s := range m.c.Slices {
		if len(s.Spec.Devices) > 0 {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return pick(m, some)
}

// device is any device with its slice, nil if there is none.
func (m *mutator) device() (*resourceapi.ResourceSlice, *resourceapi.Device) {
	s := m.slice()
	if s == nil {
		return nil, nil
	}
	return s, &s.Spec.Devices[m.rand.IntN(len(s.Spec.Devices))]
}

func (m *mutator) claim() *resourceapi.DeviceClaim { return &pick(m, m.c.Claims).Spec.Devices }

// request is any request with its claim.
func (m *mutator) request() (*resourceapi.DeviceClaim, *resourceapi.DeviceRequest) {
	claim := m.claim()
	if len(claim.Requests) == 0 {
		return claim, nil
	}
	return claim, &claim.Requests[m.rand.IntN(len(claim.Requests))]
}

// freshName is a name that no object of a kind has.
func freshName(prefix string, taken func(string) bool) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("%s%d", prefix, i); !taken(name) {
			return name
		}
	}
}
