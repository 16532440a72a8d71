// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *Checker) capacity(name resourceapi.QualifiedName, capacity resourceapi.DeviceCapacity, multiple bool, path *field.Path) field.ErrorList {
	at := path.Key(shorten(string(name)))
	errs := qualifiedName(string(name), at)
	policy := capacity.RequestPolicy
	if policy == nil {
		return errs
	}
	if at = at.Child("requestPolicy"); !multiple {
		return append(errs, field.Forbidden(at, "needs allowMultipleAllocations: true on the device"))
	}
	return append(errs, c.requestPolicy(policy, capacity.Value, at)...)
}

func atMost(quantity, limit resource.Quantity, what string, path *field.Path) field.ErrorList {
	if quantity.Cmp(limit) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quantity.String(), "must not be above "+what+", "+limit.String())}
}
