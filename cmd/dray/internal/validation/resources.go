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
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containerResources validates the amounts that a container requests, after defaulting.
func containerResources(resources *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources.Limits)) {
		at := path.Child("limits").Key(shorten(string(name)))
		errs = append(errs, resourceName(name, at)...)
		errs = append(errs, quantity(name, resources.Limits[name], at)...)
	}
	for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
		at, requested := path.Child("requests").Key(shorten(string(name))), resources.Requests[name]
		limit, limited := resources.Limits[name]
		if !limited {
			if wrong := resourceName(name, at); len(wrong) > 0 {
				errs = append(errs, wrong...)
				continue
			}
		}
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
	if size, huge := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); huge {
		if page, err := resource.ParseQuantity(size); err != nil || page.Value() <= 0 || value.Value()%page.Value() != 0 {
			return field.ErrorList{field.Invalid(path, value.String(), "must be a multiple of the size of pages, as in hugepages-2Mi")}
		}
	}
	return nil
}

// resourceName validates the name of a resource that containers request.
func resourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	text := string(name)
	switch {
	case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(text, corev1.ResourceHugePagesPrefix):
		return nil
	case strings.Contains(text, "/") && !isForeign(name):
		return labelKey(text, path)
	case strings.Contains(text, "/"):
		return extendedResourceName(&text, path)
	}
	return field.ErrorList{field.Invalid(path, shorten(text), "is no resource of Kubernetes; any other must include a domain, as in example.com/gpu")}
}

// mayExceed reports whether the pods of a node may have limits that exceed what the node has.
func mayExceed(name corev1.ResourceName) bool {
	return !isForeign(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isForeign reports whether a resource is none of Kubernetes.
func isForeign(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// extendedResourceName validates the extended resource that devices of a class provide (KEP-5004).
func extendedResourceName(name *string, path *field.Path) field.ErrorList {
	switch {
	case name == nil:
		return nil
	case !strings.Contains(*name, "/"):
		return field.ErrorList{field.Invalid(path, shorten(*name), "must include a domain, as in example.com/gpu")}
	case strings.Contains(*name, corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(*name, corev1.DefaultResourceRequestsPrefix):
		return field.ErrorList{field.Invalid(path, shorten(*name), "must not be in a domain of Kubernetes, nor begin with "+corev1.DefaultResourceRequestsPrefix)}
	}
	var errs field.ErrorList
	for _, message := range content.IsLabelKey(corev1.DefaultResourceRequestsPrefix + *name) { // the name that quotas have for it
		errs = append(errs, field.Invalid(path, shorten(*name), message))
	}
	return errs
}
