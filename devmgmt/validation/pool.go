// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Pool returns the errors of a pool.
func Pool(pool *v1alpha1.DevicePool) field.ErrorList {
	spec := field.NewPath("spec")
	errs := objectName(pool)
	errs = append(errs, subdomain(pool.Spec.Driver, spec.Child("driver"))...)
	if pool.Spec.NodeName != nil {
		errs = append(errs, subdomain(*pool.Spec.NodeName, spec.Child("nodeName"))...)
	}
	errs = append(errs, attributes(pool.Spec.Attributes, spec.Child("attributes"))...)
	errs = append(errs, resources(pool.Spec.Resources, spec.Child("resources"))...)
	if len(pool.Spec.Devices) == 0 {
		errs = append(errs, field.Required(spec.Child("devices"), ""))
	}
	shared := make(map[string]bool, len(pool.Spec.Resources))
	for _, r := range pool.Spec.Resources {
		shared[r.Name] = true
	}
	seen := make(names)
	for i := range pool.Spec.Devices {
		device, at := &pool.Spec.Devices[i], spec.Child("devices").Index(i)
		errs = append(errs, seen.check(device.Name, at.Child("name"))...)
		errs = append(errs, attributes(device.Attributes, at.Child("attributes"))...)
		errs = append(errs, deviceRequests(device.Requests, shared, at.Child("requests"))...)
		errs = append(errs, resources(device.Resources, at.Child("resources"))...)
	}
	if available := pool.Status.AvailableDevices; available < 0 {
		errs = append(errs, field.Invalid(field.NewPath("status", "availableDevices"), available, "must not be negative"))
	}
	return errs
}

// deviceRequests validates a device's requests of the pool's resources.
func deviceRequests(requests map[string]resource.Quantity, shared map[string]bool, path *field.Path) field.ErrorList {
	errs := amounts(requests, path)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if name != "" && !shared[name] {
			errs = append(errs, field.NotFound(path.Key(shorten(name)), "resource of the pool"))
		}
	}
	return errs
}

func attributes(list []v1alpha1.Attribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := make(names)
	for i, attribute := range list {
		errs = append(errs, seen.check(attribute.Name, path.Index(i).Child("name"))...)
		set := 0
		for _, isSet := range []bool{
			attribute.StringValue != nil, attribute.IntValue != nil, attribute.QuantityValue != nil, attribute.SemVerValue != nil,
		} {
			if isSet {
				set++
			}
		}
		if set != 1 {
			errs = append(errs, field.Invalid(path.Index(i), shorten(attribute.Name),
				"must have exactly one of stringValue, intValue, quantityValue and semVerValue"))
		}
		if attribute.SemVerValue != nil {
			errs = append(errs, required(string(*attribute.SemVerValue), path.Index(i).Child("semVerValue"))...)
		}
	}
	return errs
}

func resources(list []v1alpha1.ResourceCapacity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := make(names)
	for i, r := range list {
		at := path.Index(i)
		errs = append(errs, seen.check(r.Name, at.Child("name"))...)
		errs = append(errs, notNegative(r.Capacity, at.Child("capacity"))...)
		if r.BlockSize != nil && r.BlockSize.Sign() <= 0 {
			errs = append(errs, field.Invalid(at.Child("blockSize"), r.BlockSize.String(), "must be greater than zero"))
		}
	}
	return errs
}
