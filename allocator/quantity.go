package allocator

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponent bounds the decimal exponent of quantities. The API holds values up to
// 2^63-1 with nine decimals; a number such as 1e2000000000 would be computed digit by digit.
const maxExponent = 30

// checkQuantities refuses values far outside of what the API can hold, before any
// arithmetic.
func checkQuantities(asked *resourceapi.CapacityRequirements, device *resourceapi.Device) error {
	if asked != nil {
		for _, name := range slices.Sorted(maps.Keys(asked.Requests)) {
			if value := asked.Requests[name]; !inRange(&value) {
				return fmt.Errorf("capacity %s: the requested value is out of range", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		if capacity := device.Capacity[name]; !inRange(&capacity.Value) || !policyInRange(capacity.RequestPolicy) {
			return fmt.Errorf("capacity %s: a value of the device is out of range", name)
		}
	}
	return nil
}

func policyInRange(policy *resourceapi.CapacityRequestPolicy) bool {
	if policy == nil {
		return true
	}
	for i := range policy.ValidValues {
		if !inRange(&policy.ValidValues[i]) {
			return false
		}
	}
	r := policy.ValidRange
	return inRange(policy.Default) && (r == nil || inRange(r.Min) && inRange(r.Max) && inRange(r.Step))
}

func inRange(q *resource.Quantity) bool {
	if q == nil {
		return true
	}
	copied := *q // AsDec changes its receiver
	scale := copied.AsDec().Scale()
	return -maxExponent <= scale && scale <= maxExponent
}
