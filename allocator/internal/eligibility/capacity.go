package eligibility

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// Consumption is what one allocation of a device takes of its capacities, for one filter and one
// shape of device (KEP-5075).
type Consumption struct {
	// Refusal says why the device cannot serve the request, even with nothing in use.
	Refusal string
	// Err is set if a requested value cannot be represented: that ends the allocation rather
	// than skipping the device.
	Err error
	// Parts are the capacities of the device, sorted by name.
	Parts []Part
}

// Part is one capacity.
type Part struct {
	Name         resourceapi.QualifiedName
	Quantity     resource.Quantity
	Taken, Total amount.Amount
}

// newConsumption computes what a request takes of a device with the given capacities. Capacities
// that are not asked for count, too: with their default, or wholly. Errors win over refusals,
// whatever the order of the capacities.
func newConsumption(f Features, asked *resourceapi.CapacityRequirements, device *resourceapi.Device) *Consumption {
	c := &Consumption{}
	if name, missing := missingCapacity(asked, device); missing {
		c.Refusal = fmt.Sprintf("no capacity %s", name)
		return c
	}
	if c.Err = checkQuantities(asked, device); c.Err != nil {
		return c
	}
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		capacity := device.Capacity[name]
		taken, err := consumedQuantity(f, requested(asked, name), capacity)
		if err == nil && taken.Sign() < 0 {
			err = fmt.Errorf("value %s is negative", taken.String())
		}
		if err != nil {
			c.Err = fmt.Errorf("capacity %s: %w", name, err)
			return c
		}
		if c.Refusal == "" && violatesPolicy(f, taken, capacity.RequestPolicy) {
			c.Refusal = fmt.Sprintf("capacity %s: %s is not valid by its request policy", name, taken.String())
		}
		c.Parts = append(c.Parts, Part{
			Name:     name,
			Quantity: taken,
			Taken:    quantity.Amount(taken),
			Total:    quantity.Amount(capacity.Value),
		})
	}
	for _, part := range c.Parts {
		if c.Refusal == "" && part.Taken.Cmp(part.Total) > 0 {
			c.Refusal = fmt.Sprintf("capacity %s: %s asked for, the device has less", part.Name, part.Quantity.String())
		}
	}
	return c
}

// Consumed is what an allocation of a device takes, spelled as it was asked for or published.
func Consumed(f Features, asked *resourceapi.CapacityRequirements, device *resourceapi.Device) map[resourceapi.QualifiedName]resource.Quantity {
	use := newConsumption(f, asked, device)
	if len(use.Parts) == 0 {
		return nil
	}
	consumed := make(map[resourceapi.QualifiedName]resource.Quantity, len(use.Parts))
	for _, part := range use.Parts {
		consumed[part.Name] = part.Quantity.DeepCopy()
	}
	return consumed
}

// short names a capacity of which too little is left after what is in use.
func (c *Consumption) short(used *pool.Usage, index pool.DeviceIndex) string {
	if c == nil || !used.Shared(index) {
		return ""
	}
	for _, part := range c.Parts {
		if used.Consumed(index, part.Name).Add(part.Taken).Cmp(part.Total) > 0 {
			return string(part.Name)
		}
	}
	return ""
}

// equal reports whether two allocations take the same, in the same words. Errors are equal to
// nothing.
func (c *Consumption) equal(other *Consumption) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.Err == nil && other.Err == nil && c.Refusal == other.Refusal &&
		slices.EqualFunc(c.Parts, other.Parts, func(a, b Part) bool {
			return a.Name == b.Name && a.Taken == b.Taken && a.Total == b.Total &&
				a.Quantity.Equal(b.Quantity) && a.Quantity.Format == b.Quantity.Format
		})
}

// Step returns the multiples in which a share may take of a capacity, if it may take any of them, none
// included, and takes none unless it asks: a default of zero, and a range from zero on in whole steps.
func Step(capacity resourceapi.DeviceCapacity) (amount.Amount, bool) {
	policy := capacity.RequestPolicy
	if policy == nil || policy.Default == nil || !policy.Default.IsZero() || len(policy.ValidValues) > 0 || policy.ValidRange == nil {
		return amount.Amount{}, false
	}
	r := policy.ValidRange
	if r.Min == nil || !r.Min.IsZero() || r.Max != nil || r.Step == nil || r.Step.Sign() <= 0 ||
		r.Step.Cmp(*resource.NewQuantity(r.Step.Value(), r.Step.Format)) != 0 {
		return amount.Amount{}, false
	}
	return quantity.Amount(*r.Step), true
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
