// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"math"
	"slices"

	"gopkg.in/inf.v0"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValidValues is the limit in the field's documentation. The API has no constant for it.
const maxValidValues = 10

// requestPolicy validates the request policy of a capacity with that value.
func (c *Checker) requestPolicy(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(policy.ValidValues) > 0 && policy.ValidRange != nil {
		errs = append(errs, field.Forbidden(path.Child("validRange"), "only one of validValues and validRange can be set"))
	}
	if (len(policy.ValidValues) > 0 || policy.ValidRange != nil) && policy.Default == nil {
		return append(errs, field.Required(path.Child("default"), "needed with validValues and validRange"))
	}
	errs = append(errs, c.validValues(policy, value, path)...)
	return append(errs, c.validRange(policy, value, path)...)
}

func (c *Checker) validValues(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	at := path.Child("validValues")
	errs := tooMany(at, len(policy.ValidValues), maxValidValues)
	hasDefault := len(policy.ValidValues) == 0
	for i, valid := range policy.ValidValues {
		errs = append(errs, atMost(valid, value, "the capacity", at.Index(i))...)
		// Without the feature, values are compared as whole numbers.
		if i > 0 && (policy.ValidValues[i-1].Cmp(valid) >= 0 || !c.fractions && policy.ValidValues[i-1].Value() == valid.Value()) {
			errs = append(errs, field.Invalid(at.Index(i), valid.String(), "values must be in ascending order"))
		}
		hasDefault = hasDefault || policy.Default.Cmp(valid) == 0
	}
	if !hasDefault {
		errs = append(errs, field.Invalid(path.Child("default"), policy.Default.String(), "must be one of validValues"))
	}
	return errs
}

func (c *Checker) validRange(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	limits := policy.ValidRange
	if limits == nil {
		return nil
	}
	at := path.Child("validRange")
	if limits.Min == nil {
		return field.ErrorList{field.Required(at.Child("min"), "")}
	}
	errs := atMost(*limits.Min, value, "the capacity", at.Child("min"))
	errs = append(errs, atMost(*limits.Min, *policy.Default, "the default", at.Child("min"))...)
	if limits.Max != nil {
		errs = append(errs, atMost(*limits.Min, *limits.Max, "max", at.Child("min"))...)
		errs = append(errs, atMost(*limits.Max, value, "the capacity", at.Child("max"))...)
		errs = append(errs, atMost(*policy.Default, *limits.Max, "max", path.Child("default"))...)
	}
	if uncountable := c.countable(policy, at); len(uncountable) > 0 {
		return append(errs, uncountable...)
	}
	return append(errs, c.step(policy, value, path)...)
}

// step validates that default and max are the minimum of the range, or whole steps above it.
func (c *Checker) step(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	limits := policy.ValidRange
	if limits.Step == nil {
		return nil
	}
	at := path.Child("validRange")
	if limits.Step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at.Child("step"), limits.Step.String(), "must be greater than zero")}
	}
	var errs field.ErrorList
	second := limits.Min.DeepCopy()
	second.Add(*limits.Step)
	if second.Cmp(value) > 0 {
		errs = append(errs, field.Invalid(at.Child("step"), limits.Step.String(), "one step above min must not be above the capacity, "+value.String()))
	}
	errs = append(errs, c.onStep(*policy.Default, policy, path.Child("default"))...)
	if limits.Max != nil {
		errs = append(errs, c.onStep(*limits.Max, policy, at.Child("max"))...)
	}
	return errs
}

// countsFractions reports whether steps are counted in thousandths: without the feature, and without fractions, they are whole numbers.
func (c *Checker) countsFractions(policy *resourceapi.CapacityRequestPolicy) bool {
	limits := policy.ValidRange
	return c.fractions && slices.ContainsFunc([]*resource.Quantity{policy.Default, limits.Min, limits.Max, limits.Step}, func(amount *resource.Quantity) bool {
		return amount != nil && isFraction(*amount)
	})
}

// countable validates that amounts can be counted: in thousandths, or, with a step, in whole numbers from zero on.
func (c *Checker) countable(policy *resourceapi.CapacityRequestPolicy, path *field.Path) field.ErrorList {
	limits := policy.ValidRange
	amounts := map[string]*resource.Quantity{"default": policy.Default, "min": limits.Min, "max": limits.Max, "step": limits.Step}
	fractions := c.countsFractions(policy)
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		amount := amounts[name]
		switch {
		case amount == nil:
		case fractions && amount.Cmp(*resource.NewMilliQuantity(amount.MilliValue(), amount.Format)) != 0:
			errs = append(errs, field.Invalid(path.Child(name), amount.String(), "with fractions, must be a number of thousandths that 63 bits can hold"))
		case !fractions && limits.Step != nil && (amount.Sign() < 0 || amount.CmpInt64(math.MaxInt64) > 0):
			errs = append(errs, field.Invalid(path.Child(name), amount.String(), "with a step, must not be negative, and 63 bits must hold it"))
		}
	}
	return errs
}

func isFraction(quantity resource.Quantity) bool {
	whole := new(inf.Dec).Round(quantity.AsDec(), 0, inf.RoundDown)
	return whole.Cmp(quantity.AsDec()) != 0
}

func (c *Checker) onStep(quantity resource.Quantity, policy *resourceapi.CapacityRequestPolicy, path *field.Path) field.ErrorList {
	limits, number := policy.ValidRange, (*resource.Quantity).Value
	if c.countsFractions(policy) {
		number = (*resource.Quantity).MilliValue
	}
	if (number(&quantity)-number(limits.Min))%number(limits.Step) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must be a whole number of steps of "+limits.Step.String()+" above min, "+limits.Min.String())}
}
