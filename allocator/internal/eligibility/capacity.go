// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/quantity"
)

// Consumption is what one allocation of a device consumes of its capacities, for one filter and one shape of
// device (KEP-5075).
type Consumption struct {
	// Refusal says why the device cannot serve the request, even with nothing in use.
	Refusal string
	// Err is set if a requested value cannot be represented. It ends the allocation; the device is not skipped.
	Err error
	// Parts are the capacities of the device, sorted by name.
	Parts []Part
}

// Part is the consumption of one capacity.
type Part struct {
	Name         resourceapi.QualifiedName
	Quantity     resource.Quantity
	Taken, Total amount.Amount
	// Step is above zero if a share may take any multiple of it instead, zero included. That is so if the
	// request does not set the capacity and the default is zero. The valid range must start at zero, and have
	// whole steps and no maximum.
	Step amount.Amount
}

// consumption returns what a request consumes of a device of a shape. It is nil without the feature
// ConsumableCapacity.
func (s *Selection) consumption(of *shape.Shape) *Consumption {
	if !s.features.ConsumableCapacity {
		return nil
	}
	return newConsumption(s.features, s.capacity, of.Device)
}

// newConsumption computes what a request consumes of a device with the given capacities. Capacities that the
// request does not set count with their default, or wholly. Errors win over refusals, whatever the order of the
// capacities.
func newConsumption(f Features, asked *resourceapi.CapacityRequirements, device *resourceapi.Device) *Consumption {
	var requests map[resourceapi.QualifiedName]resource.Quantity
	if asked != nil {
		requests = asked.Requests
	}
	for name := range sorted(requests) {
		if _, found := device.Capacity[name]; !found {
			return &Consumption{Refusal: fmt.Sprintf("no capacity %s", name)}
		}
	}
	c := &Consumption{}
	for name, capacity := range sorted(device.Capacity) {
		taken, err := consumedQuantity(f, requests, name, capacity)
		if errors.Is(err, errDeviceValue) {
			c.Refusal = fmt.Sprintf("capacity %s: %v", name, err)
			continue
		}
		if err != nil {
			c.Err = fmt.Errorf("capacity %s: %w", name, err)
			return c
		}
		if taken.Sign() < 0 {
			c.Err = fmt.Errorf("capacity %s: value %s is negative", name, taken.String())
			return c
		}
		part := Part{Name: name, Quantity: taken, Taken: quantity.Amount(taken), Total: quantity.Amount(capacity.Value)}
		if _, fixed := requests[name]; !fixed {
			part.Step = stepOf(capacity.RequestPolicy)
		}
		c.Parts = append(c.Parts, part)
		switch {
		case c.Refusal != "":
		case violatesPolicy(f, taken, capacity.RequestPolicy):
			c.Refusal = fmt.Sprintf("capacity %s: %s is not valid by its request policy", name, taken.String())
		case part.Taken.Cmp(part.Total) > 0:
			c.Refusal = fmt.Sprintf("capacity %s: %s asked for, the device has less", name, taken.String())
		}
	}
	return c
}

// Consumed returns what an allocation of a device consumes. Quantities keep the format in which they were
// requested or published.
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

// short returns the name of a capacity that has less left than the request consumes, empty if there is none.
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

// stepOf returns Part.Step for a policy, zero if shares cannot vary.
func stepOf(policy *resourceapi.CapacityRequestPolicy) (step amount.Amount) {
	if policy == nil || policy.Default == nil || !policy.Default.IsZero() || len(policy.ValidValues) > 0 || policy.ValidRange == nil {
		return step
	}
	r := policy.ValidRange
	if r.Min == nil || !r.Min.IsZero() || r.Max != nil || r.Step == nil || r.Step.Cmp(*resource.NewQuantity(r.Step.Value(), r.Step.Format)) != 0 {
		return step
	}
	return quantity.Amount(*r.Step)
}

// boundsOf lists the quantities in a policy. Those that are not set are nil.
func boundsOf(policy *resourceapi.CapacityRequestPolicy) []*resource.Quantity {
	if policy == nil {
		return nil
	}
	bounds := []*resource.Quantity{policy.Default}
	if r := policy.ValidRange; r != nil {
		bounds = append(bounds, r.Min, r.Max, r.Step)
	}
	for i := range policy.ValidValues {
		bounds = append(bounds, &policy.ValidValues[i])
	}
	return bounds
}

// sorted iterates over a map in the order of names.
func sorted[V any](m map[resourceapi.QualifiedName]V) iter.Seq2[resourceapi.QualifiedName, V] {
	return func(yield func(resourceapi.QualifiedName, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// errDeviceValue says that a published value is out of the range of amounts. Such a device serves no request.
var errDeviceValue = errors.New("a value of the device is out of range")

// consumedQuantity returns what a request consumes of one capacity. Without a value in the request, it is the
// policy's default, or else all. Other values are rounded up as the policy says. Values that an Amount cannot
// hold exactly are errors, before any arithmetic.
func consumedQuantity(f Features, requests map[resourceapi.QualifiedName]resource.Quantity, name resourceapi.QualifiedName, capacity resourceapi.DeviceCapacity) (resource.Quantity, error) {
	asked, found := requests[name]
	if !quantity.InRange(asked) {
		return asked, errors.New("the requested value is out of range")
	}
	policy := capacity.RequestPolicy
	for _, q := range append(boundsOf(policy), &capacity.Value) {
		if q != nil && !quantity.InRange(*q) {
			return *q, errDeviceValue
		}
	}
	switch {
	case !found && policy != nil && policy.Default != nil:
		return policy.Default.DeepCopy(), nil
	case !found:
		return capacity.Value.DeepCopy(), nil
	case policy == nil:
		return asked.DeepCopy(), nil
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		return roundIntoRange(f, asked, policy.ValidRange)
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
	case policy.Default != nil && taken.Cmp(*policy.Default) == 0:
		return false // the default is always valid, in whatever format it is written: see decision 0062
	case policy.ValidRange != nil:
		return violatesRange(f, taken, policy.ValidRange)
	case len(policy.ValidValues) > 0:
		return !slices.ContainsFunc(policy.ValidValues, func(valid resource.Quantity) bool { return taken.Cmp(valid) == 0 })
	}
	return false
}

// roundIntoRange raises a value to the range's minimum, or to the next step above
// it. A result that int64 cannot hold is an error.
func roundIntoRange(f Features, asked resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) (resource.Quantity, error) {
	if asked.Cmp(*r.Min) < 0 {
		return r.Min.DeepCopy(), nil
	}
	if r.Step == nil {
		return asked.DeepCopy(), nil
	}
	in := rangeUnit(f, r)
	value, ok := in.of(asked)
	if !ok {
		return resource.Quantity{}, fmt.Errorf("request %s is too large or too fine for its valid range", asked.String())
	}
	low, _ := in.of(*r.Min)
	step, _ := in.of(*r.Step)
	if step == 0 {
		return resource.Quantity{}, errors.New("the step of its valid range is zero")
	}
	steps := (value - low) / step
	if (value-low)%step != 0 {
		steps++
	}
	// From below zero, what is left up to the largest number is no number: upstream takes it for one in thousandths.
	if (in == milli || low >= 0) && steps > (math.MaxInt64-low)/step {
		return resource.Quantity{}, fmt.Errorf("request %s is too large to be rounded to a step of its valid range", asked.String())
	}
	return in.quantity(low+step*steps, r.Step.Format), nil
}

func violatesRange(f Features, taken resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) bool {
	if r.Max != nil && taken.Cmp(*r.Max) > 0 {
		return true
	}
	if r.Step == nil {
		return false
	}
	in := rangeUnit(f, r)
	value, ok := in.of(taken)
	if !ok && in == milli {
		return true
	}
	low := int64(0)
	if r.Min != nil {
		low, _ = in.of(*r.Min)
	}
	step, _ := in.of(*r.Step)
	return step == 0 || (value-low)%step != 0
}

// rangeUnit is milli if fractional ranges are on and all bounds are whole thousandths that an int64 holds.
// Otherwise it is whole units.
func rangeUnit(f Features, r *resourceapi.CapacityRequestPolicyRange) unit {
	if !f.FractionalCapacityRange || r.Step != nil && r.Step.MilliValue() < 1 {
		return whole
	}
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q != nil {
			if _, ok := milli.of(*q); !ok {
				return whole
			}
		}
	}
	return milli
}

// unit is the unit in which a valid range is computed, as a scale of quantities.
type unit resource.Scale

const (
	whole = unit(0)
	milli = unit(resource.Milli)
)

// of returns q in the unit, and whether int64 holds it (for milli: without
// rounding; whole units are rounded up as Quantity.Value does).
func (u unit) of(q resource.Quantity) (int64, bool) {
	if u == whole {
		return q.Value(), q.CmpInt64(math.MaxInt64) <= 0
	}
	value := q.MilliValue()
	return value, q.Cmp(*resource.NewMilliQuantity(value, q.Format)) == 0
}

func (u unit) quantity(value int64, f resource.Format) resource.Quantity {
	if u == milli && value%1000 == 0 {
		u, value = whole, value/1000
	}
	made := resource.NewScaledQuantity(value, resource.Scale(u))
	made.Format = f
	return *made
}
