// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
	if at = at.Child("requestPolicy"); !multiple {
		return append(errs, field.Forbidden(at, "needs allowMultipleAllocations: true on the device"))
	}
	return append(errs, requestPolicy(policy, capacity.Value, at)...)
}

func atMost(quantity, limit resource.Quantity, what string, path *field.Path) field.ErrorList {
	if quantity.Cmp(limit) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must not be above "+what+", "+limit.String())}
}
