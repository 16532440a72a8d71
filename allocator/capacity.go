package allocator

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
)

// consumption is what one allocation of a device takes of its capacities, for one
// filter and one shape of device (KEP-5075).
type consumption struct {
	// refusal says why the device cannot serve the request, even with nothing in use.
	refusal string
	// err is set if a requested value cannot be represented: that ends the
	// allocation rather than skipping the device.
	err   error
	parts []consumptionPart
}

// consumptionPart is one capacity of the device; parts are sorted by name.
type consumptionPart struct {
	name     resourceapi.QualifiedName
	quantity resource.Quantity
	taken    amount.Amount
	total    amount.Amount
}

// newConsumption computes what a request takes of a device with the given
// capacities. Capacities that are not asked for count, too: with their default, or
// wholly. Errors win over refusals, whatever the order of the capacities.
func newConsumption(f Features, asked *resourceapi.CapacityRequirements, device *resourceapi.Device) *consumption {
	c := &consumption{}
	if name, missing := missingCapacity(asked, device); missing {
		c.refusal = fmt.Sprintf("no capacity %s", name)
		return c
	}
	if c.err = checkQuantities(asked, device); c.err != nil {
		return c
	}
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		capacity := device.Capacity[name]
		taken, err := consumedQuantity(f, requested(asked, name), capacity)
		if err == nil && taken.Sign() < 0 {
			err = fmt.Errorf("value %s is negative", taken.String())
		}
		if err != nil {
			c.err = fmt.Errorf("capacity %s: %w", name, err)
			return c
		}
		if c.refusal == "" && violatesPolicy(f, taken, capacity.RequestPolicy) {
			c.refusal = fmt.Sprintf("capacity %s: %s is not valid by its request policy", name, taken.String())
		}
		c.parts = append(c.parts, consumptionPart{
			name:     name,
			quantity: taken,
			taken:    amount.FromQuantity(taken),
			total:    amount.FromQuantity(capacity.Value),
		})
	}
	for _, part := range c.parts {
		if c.refusal == "" && part.taken.Cmp(part.total) > 0 {
			c.refusal = fmt.Sprintf("capacity %s: %s asked for, the device has less", part.name, part.quantity.String())
		}
	}
	return c
}

// equal reports whether two shares take the same, in the same words. Errors are equal to
// nothing.
func (c *consumption) equal(other *consumption) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.err == nil && other.err == nil && c.refusal == other.refusal &&
		slices.EqualFunc(c.parts, other.parts, func(a, b consumptionPart) bool {
			return a.name == b.name && a.taken == b.taken && a.total == b.total &&
				a.quantity.Equal(b.quantity) && a.quantity.Format == b.quantity.Format
		})
}

func missingCapacity(asked *resourceapi.CapacityRequirements, device *resourceapi.Device) (resourceapi.QualifiedName, bool) {
	if asked == nil {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(asked.Requests)) {
		if _, found := device.Capacity[name]; !found {
			return name, true
		}
	}
	return "", false
}

func requested(asked *resourceapi.CapacityRequirements, name resourceapi.QualifiedName) *resource.Quantity {
	if asked == nil {
		return nil
	}
	if value, found := asked.Requests[name]; found {
		return &value
	}
	return nil
}

// consumedQuantity turns what is asked for into what is taken: nothing asked means
// the policy's default, else everything; other values are rounded up as the policy says.
func consumedQuantity(f Features, asked *resource.Quantity, capacity resourceapi.DeviceCapacity) (resource.Quantity, error) {
	policy := capacity.RequestPolicy
	switch {
	case asked == nil && policy != nil && policy.Default != nil:
		return policy.Default.DeepCopy(), nil
	case asked == nil:
		return capacity.Value.DeepCopy(), nil
	case policy == nil:
		return asked.DeepCopy(), nil
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		return roundIntoRange(f, *asked, policy.ValidRange)
	}
	for _, valid := range policy.ValidValues {
		if asked.Cmp(valid) <= 0 {
			return valid.DeepCopy(), nil
		}
	}
	return asked.DeepCopy(), nil
}

func violatesPolicy(f Features, taken resource.Quantity, policy *resourceapi.CapacityRequestPolicy) bool {
	switch {
	case policy == nil:
		return false
	case policy.Default != nil && taken == *policy.Default:
		return false
	case policy.ValidRange != nil:
		return violatesRange(f, taken, policy.ValidRange)
	case len(policy.ValidValues) > 0:
		return !slices.ContainsFunc(policy.ValidValues, func(valid resource.Quantity) bool { return taken.Cmp(valid) == 0 })
	}
	return false
}
