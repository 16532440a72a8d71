// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// addCapacity reads: name=value [default=] [min=] [max=] [step=] [values=] ...
// The words of a request policy belong to the capacity before them.
func addCapacity(device *resourceapi.Device, w *words) error {
	if device.Capacity == nil {
		device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
	}
	var name resourceapi.QualifiedName
	return w.some(func(key, value string) error {
		capacity := device.Capacity[name]
		policy, err := policyField(capacity.RequestPolicy, key, value)
		switch {
		case err != nil:
			return err
		case policy == nil:
			name = resourceapi.QualifiedName(key)
			quantity, err := parseQuantity(value)
			if err == nil {
				device.Capacity[name] = resourceapi.DeviceCapacity{Value: *quantity}
			}
			return err
		case name == "":
			return errors.New("policy without a capacity before it")
		}
		capacity.RequestPolicy = policy
		device.Capacity[name] = capacity
		return nil
	})
}

// policyField returns the policy with a field set, nil if key is not a field of a policy.
func policyField(policy *resourceapi.CapacityRequestPolicy, key, value string) (*resourceapi.CapacityRequestPolicy, error) {
	if policy == nil {
		policy = &resourceapi.CapacityRequestPolicy{}
	}
	switch key {
	case "policy":
		if value != emptyPolicy {
			return nil, errors.New(`expected "empty"`)
		}
		return policy, nil
	case "values":
		values, err := parseQuantities(value)
		policy.ValidValues = values
		return policy, err
	}
	target := quantityField(policy, key)
	if target == nil {
		return nil, nil
	}
	var err error
	*target, err = parseQuantity(value)
	return policy, err
}

// emptyPolicy is the value of policy= for a policy without fields.
const emptyPolicy = "empty"

func quantityField(policy *resourceapi.CapacityRequestPolicy, key string) **resource.Quantity {
	switch key {
	case "default":
		return &policy.Default
	case "min", "max", "step":
	default:
		return nil
	}
	if policy.ValidRange == nil {
		policy.ValidRange = &resourceapi.CapacityRequestPolicyRange{}
	}
	switch key {
	case "min":
		return &policy.ValidRange.Min
	case "max":
		return &policy.ValidRange.Max
	}
	return &policy.ValidRange.Step
}

func parseQuantities(word string) ([]resource.Quantity, error) {
	var all []resource.Quantity
	for _, item := range commaItems(word) {
		quantity, err := parseQuantity(item)
		if err != nil {
			return nil, err
		}
		all = append(all, *quantity)
	}
	return all, nil
}

func writePolicy(policy *resourceapi.CapacityRequestPolicy) string {
	if policy == nil {
		return ""
	}
	var b strings.Builder
	field := func(key string, q *resource.Quantity) {
		if q != nil {
			b.WriteString(" " + key + "=" + q.String())
		}
	}
	field("default", policy.Default)
	if r := policy.ValidRange; r != nil {
		field("min", r.Min)
		field("max", r.Max)
		field("step", r.Step)
	}
	if len(policy.ValidValues) > 0 {
		values := make([]string, len(policy.ValidValues))
		for i, q := range policy.ValidValues {
			values[i] = q.String()
		}
		b.WriteString(" values=" + strings.Join(values, ","))
	}
	if b.Len() == 0 {
		return " policy=" + emptyPolicy
	}
	return b.String()
}

// parseRequested reads the quantities of a request, or those that a share consumes.
func parseRequested(w *words) (map[resourceapi.QualifiedName]resource.Quantity, error) {
	requested := make(map[resourceapi.QualifiedName]resource.Quantity)
	err := w.pairs(func(key, value string) error {
		quantity, err := parseQuantity(value)
		if err == nil {
			requested[resourceapi.QualifiedName(key)] = *quantity
		}
		return err
	})
	return requested, err
}

func writeRequested(requested map[resourceapi.QualifiedName]resource.Quantity) string {
	var b strings.Builder
	sorted(requested, func(name resourceapi.QualifiedName, q resource.Quantity) {
		b.WriteString(" " + string(name) + "=" + q.String())
	})
	return b.String()
}
