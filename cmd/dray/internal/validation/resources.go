// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containerResources validates the amounts that a container requests, after defaulting.
func containerResources(resources *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources.Limits)) {
		errs = append(errs, quantity(name, resources.Limits[name], path.Child("limits").Key(string(name)))...)
	}
	for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
		at, requested := path.Child("requests").Key(string(name)), resources.Requests[name]
		limit, limited := resources.Limits[name]
		switch {
		case limited && limit.Cmp(requested) == 0:
			continue // the amount is that of the limit
		case !limited && mayExceed(name):
		case !limited:
			errs = append(errs, field.Required(path.Child("limits").Key(string(name)), fmt.Sprintf("%s needs a limit that equals the request", name)))
		case !mayExceed(name):
			errs = append(errs, field.Invalid(at, requested.String(), "must equal the limit, "+limit.String()))
		case requested.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, requested.String(), "must not exceed the limit, "+limit.String()))
		}
		errs = append(errs, quantity(name, requested, at)...)
	}
	return errs
}

func quantity(name corev1.ResourceName, value resource.Quantity, path *field.Path) field.ErrorList {
	if value.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, value.String(), "must not be negative")}
	}
	if isForeign(name) && value.MilliValue()%1000 != 0 {
		return field.ErrorList{field.Invalid(path, value.String(), "must be a whole number")}
	}
	return nil
}

// mayExceed reports whether the pods of a node may have limits that exceed what the node has.
func mayExceed(name corev1.ResourceName) bool {
	return !isForeign(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isForeign reports whether a resource is none of Kubernetes.
func isForeign(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}
