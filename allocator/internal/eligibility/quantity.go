package eligibility

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/quantity"
)

// checkQuantities refuses values that amounts cannot hold exactly, before any arithmetic.
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

// inRange reports whether arithmetic on a quantity is exact.
func inRange(q *resource.Quantity) bool { return q == nil || quantity.InRange(*q) }
