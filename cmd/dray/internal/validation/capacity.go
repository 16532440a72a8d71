package validation

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const mostValidValues = 10

func capacityRequests(requests map[resourceapi.QualifiedName]resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		at := path.Key(shorten(string(name)))
		errs = append(errs, qualifiedName(string(name), at)...)
		errs = append(errs, notNegative(requests[name], at)...)
	}
	return errs
}

func notNegative(quantity resource.Quantity, path *field.Path) field.ErrorList {
	if quantity.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must not be negative")}
}

func capacity(name resourceapi.QualifiedName, capacity resourceapi.DeviceCapacity, multiple bool, path *field.Path) field.ErrorList {
	at := path.Key(shorten(string(name)))
	errs := qualifiedName(string(name), at)
	errs = append(errs, notNegative(capacity.Value, at.Child("value"))...)
	policy := capacity.RequestPolicy
	if policy == nil {
		return errs
	}
	at = at.Child("requestPolicy")
	if !multiple {
		return append(errs, field.Forbidden(at, "needs allowMultipleAllocations: true on the device"))
	}
	if len(policy.ValidValues) > 0 && policy.ValidRange != nil {
		errs = append(errs, field.Forbidden(at.Child("validRange"), "only one of validValues and validRange can be set"))
	}
	if (len(policy.ValidValues) > 0 || policy.ValidRange != nil) && policy.Default == nil {
		return append(errs, field.Required(at.Child("default"), "needed with validValues and validRange"))
	}
	if policy.Default != nil {
		errs = append(errs, atMost(*policy.Default, capacity.Value, "the capacity", at.Child("default"))...)
	}
	errs = append(errs, validValues(policy, capacity.Value, at)...)
	return append(errs, validRange(policy, capacity.Value, at)...)
}

func validValues(policy *resourceapi.CapacityRequestPolicy, value resource.Quantity, path *field.Path) field.ErrorList {
	at := path.Child("validValues")
	errs := tooMany(at, len(policy.ValidValues), mostValidValues)
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
		errs = append(errs, atMost(*limits.Max, value, "the capacity", at.Child("max"))...)
		errs = append(errs, atMost(*policy.Default, *limits.Max, "max", path.Child("default"))...)
	}
	if limits.Step != nil && limits.Step.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("step"), limits.Step.String(), "must be greater than zero"))
	}
	return errs
}

func atMost(quantity, limit resource.Quantity, what string, path *field.Path) field.ErrorList {
	if quantity.Cmp(limit) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must not be above "+what+", "+limit.String())}
}
