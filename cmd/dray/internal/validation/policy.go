// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"gopkg.in/inf.v0"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValidValues is the limit in the field's documentation. The API has no constant for it.
const maxValidValues = 10

// requestPolicy validates the request policy of a capacity with that value.
func requestPolicy(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(policy.ValidValues) > 0 && policy.ValidRange != nil {
		errs = append(errs, field.Forbidden(path.Child("validRange"), "only one of validValues and validRange can be set"))
	}
	if (len(policy.ValidValues) > 0 || policy.ValidRange != nil) && policy.Default == nil {
		return append(errs, field.Required(path.Child("default"), "needed with validValues and validRange"))
	}
	errs = append(errs, validValues(policy, value, path)...)
	return append(errs, validRange(policy, value, path)...)
}

func validValues(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	at := path.Child("validValues")
	errs := tooMany(at, len(policy.ValidValues), maxValidValues)
	hasDefault := len(policy.ValidValues) == 0
	for i, valid := range policy.ValidValues {
		errs = append(errs, atMost(valid, value, "the capacity", at.Index(i))...)
		if i > 0 && policy.ValidValues[i-1].Cmp(valid) >= 0 {
			errs = append(errs, field.Invalid(at.Index(i), valid.String(), "values must be in ascending order"))
		}
		hasDefault = hasDefault || policy.Default.Cmp(valid) == 0
	}
	if !hasDefault {
		errs = append(errs, field.Invalid(path.Child("default"), policy.Default.String(), "must be one of validValues"))
	}
	return errs
}

func validRange(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	limits := policy.ValidRange
	if limits == nil {
		return nil
	}
	at := path.Child("validRange")
	if limits.Min == nil {
		return field.ErrorList{field.Required(at.Child("min"), "")}
	}
	errs := notNegative(*limits.Min, at.Child("min"))
	errs = append(errs, atMost(*limits.Min, value, "the capacity", at.Child("min"))...)
	errs = append(errs, atMost(*limits.Min, *policy.Default, "the default", at.Child("min"))...)
	if limits.Max != nil {
		errs = append(errs, atMost(*limits.Min, *limits.Max, "max", at.Child("min"))...)
		errs = append(errs, atMost(*limits.Max, value, "the capacity", at.Child("max"))...)
		errs = append(errs, atMost(*policy.Default, *limits.Max, "max", path.Child("default"))...)
	}
	return append(errs, step(policy, value, path)...)
}

// step validates that default and max are the minimum of the range, or whole steps above it.
func step(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
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
	errs = append(errs, onStep(*policy.Default, limits, path.Child("default"))...)
	if limits.Max != nil {
		errs = append(errs, onStep(*limits.Max, limits, at.Child("max"))...)
	}
	return errs
}

func onStep(quantity resource.Quantity, limits *resourceapi.CapacityRequestPolicyRange, path *field.Path) field.ErrorList {
	above, size := quantity.DeepCopy(), limits.Step.DeepCopy()
	above.Sub(*limits.Min)
	// exact arithmetic, since steps may be fractions
	steps := new(inf.Dec).QuoRound(above.AsDec(), size.AsDec(), 0, inf.RoundDown)
	if steps.Mul(steps, size.AsDec()).Cmp(above.AsDec()) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must be a whole number of steps of "+limits.Step.String()+" above min, "+limits.Min.String())}
}
