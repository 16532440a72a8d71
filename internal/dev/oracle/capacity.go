// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// checkCapacity: what the request consumes of each capacity is allowed by the policy
// and fits next to what shares consume.
func (w *world) checkCapacity(p placement, before []placement) error {
	if !w.c.Features.ConsumableCapacity {
		return nil
	}
	if err := w.checkStaticCapacity(p.device, p.want); err != nil {
		return err
	}
	for name, capacity := range p.device.api.Capacity {
		total := w.consumed(p.device, p.want, name)
		if used, ok := w.shares[p.device.id][string(name)]; ok {
			total.Add(used)
		}
		for _, other := range before {
			if other.device == p.device && w.shared(p.device) {
				total.Add(w.consumed(other.device, other.want, name))
			}
		}
		if total.Cmp(capacity.Value) > 0 {
			return fmt.Errorf("capacity %s: %s of %s used", name, total.String(), capacity.Value.String())
		}
	}
	return nil
}

// checkStaticCapacity looks at the device as if nothing were in use.
func (w *world) checkStaticCapacity(d *device, by *want) error {
	if by.capacity != nil {
		for name := range by.capacity.Requests {
			if _, ok := d.api.Capacity[name]; !ok {
				return fmt.Errorf("has no capacity %s", name)
			}
		}
	}
	for name, capacity := range d.api.Capacity {
		consumed := w.consumed(d, by, name)
		if consumed.Sign() < 0 || w.countsFromBelowZero(by, name, capacity.RequestPolicy) {
			return fmt.Errorf("capacity %s: that is an error", name)
		}
		if consumed.Cmp(capacity.Value) > 0 || !w.allowed(consumed, capacity.RequestPolicy) {
			return fmt.Errorf("capacity %s: cannot give %s", name, consumed.String())
		}
	}
	return nil
}

// countsFromBelowZero reports whether a request has to be rounded to a step, in thousandths, of a range that begins below zero.
func (w *world) countsFromBelowZero(by *want, name resourceapi.QualifiedName, policy *resourceapi.CapacityRequestPolicy) bool {
	if by.capacity == nil || policy == nil || policy.ValidRange == nil || policy.ValidRange.Step == nil || !w.c.Features.FractionalCapacityRange {
		return false
	}
	requested, asked := by.capacity.Requests[name]
	least := policy.ValidRange.Min
	return asked && least.Sign() < 0 && requested.Cmp(*least) >= 0
}

// consumed is how much of a capacity one allocation for the request takes.
func (w *world) consumed(d *device, by *want, name resourceapi.QualifiedName) resource.Quantity {
	capacity := d.api.Capacity[name]
	policy := capacity.RequestPolicy
	var requested resource.Quantity
	asked := false
	if by.capacity != nil {
		requested, asked = by.capacity.Requests[name]
	}
	switch {
	case !asked && policy != nil && policy.Default != nil:
		return policy.Default.DeepCopy()
	case !asked:
		return capacity.Value.DeepCopy()
	case policy == nil:
		return requested.DeepCopy()
	case policy.ValidRange != nil:
		return w.roundToStep(requested, policy.ValidRange)
	}
	for _, value := range policy.ValidValues {
		if value.Cmp(requested) >= 0 {
			return value.DeepCopy()
		}
	}
	return requested.DeepCopy()
}

func (w *world) roundToStep(requested resource.Quantity, limits *resourceapi.CapacityRequestPolicyRange) resource.Quantity {
	if requested.Cmp(*limits.Min) < 0 {
		return limits.Min.DeepCopy()
	}
	if limits.Step == nil {
		return requested.DeepCopy()
	}
	rounded := w.units(*limits.Min)
	for rounded < w.units(requested) {
		// Jump close first: a request can be many steps away.
		rounded += max(1, (w.units(requested)-rounded)/w.units(*limits.Step)) * w.units(*limits.Step)
	}
	if w.c.Features.FractionalCapacityRange {
		return *resource.NewMilliQuantity(rounded, limits.Step.Format)
	}
	return *resource.NewQuantity(rounded, limits.Step.Format)
}

// units is a quantity in the unit of range arithmetic: thousandths with fractional
// ranges, else whole numbers, rounded up.
func (w *world) units(q resource.Quantity) int64 {
	if w.c.Features.FractionalCapacityRange {
		return q.MilliValue()
	}
	return q.Value()
}

func (w *world) allowed(consumed resource.Quantity, policy *resourceapi.CapacityRequestPolicy) bool {
	switch {
	case policy == nil, policy.Default != nil && consumed.Cmp(*policy.Default) == 0:
		return true
	case policy.ValidRange != nil:
		limits := policy.ValidRange
		if limits.Max != nil && consumed.Cmp(*limits.Max) > 0 {
			return false
		}
		return limits.Step == nil || (w.units(consumed)-w.units(*limits.Min))%w.units(*limits.Step) == 0
	case len(policy.ValidValues) > 0:
		for _, value := range policy.ValidValues {
			if value.Cmp(consumed) == 0 {
				return true
			}
		}
		return false
	}
	return true
}
