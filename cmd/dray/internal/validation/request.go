// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// demand has the fields that requests and subrequests share.
type demand struct {
	class       string
	selectors   []resourceapi.DeviceSelector
	mode        resourceapi.DeviceAllocationMode
	count       int64
	tolerations []resourceapi.DeviceToleration
}

func (c *Checker) request(request *resourceapi.DeviceRequest, compared map[comparedAttribute]bool, path *field.Path) field.ErrorList {
	exactly, alternatives := request.Exactly, request.FirstAvailable
	switch {
	case exactly != nil && len(alternatives) > 0:
		return field.ErrorList{field.Invalid(path, shorten(request.Name), "must set exactly one of exactly and firstAvailable")}
	case exactly != nil:
		at := path.Child("exactly")
		errs := c.demand(demand{exactly.DeviceClassName, exactly.Selectors, exactly.AllocationMode, exactly.Count, exactly.Tolerations}, at)
		return append(errs, c.derived(exactly.DerivedAttributes, compared, at.Child("derivedAttributes"), request.Name)...)
	case len(alternatives) > 0:
		return c.alternatives(request, compared, path.Child("firstAvailable"))
	}
	return field.ErrorList{field.Required(path, "must set exactly one of exactly and firstAvailable")}
}

func (c *Checker) alternatives(request *resourceapi.DeviceRequest, compared map[comparedAttribute]bool, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(request.FirstAvailable), resourceapi.FirstAvailableDeviceRequestMaxSize)
	seen := make(map[string]bool)
	for i := range request.FirstAvailable {
		sub, at := &request.FirstAvailable[i], path.Index(i)
		errs = append(errs, uniqueLabel(sub.Name, seen, at.Child("name"))...)
		errs = append(errs, c.demand(demand{sub.DeviceClassName, sub.Selectors, sub.AllocationMode, sub.Count, sub.Tolerations}, at)...)
		errs = append(errs, c.derived(sub.DerivedAttributes, compared, at.Child("derivedAttributes"), request.Name, request.Name+"/"+sub.Name)...)
	}
	return errs
}

func (c *Checker) demand(d demand, path *field.Path) field.ErrorList {
	errs := subdomain(d.class, path.Child("deviceClassName"))
	errs = append(errs, amount(d.mode, d.count, path)...)
	errs = append(errs, c.selectors(d.selectors, path.Child("selectors"))...)
	for i, each := range d.tolerations {
		errs = append(errs, toleration(each, path.Child("tolerations").Index(i))...)
	}
	return errs
}

func amount(mode resourceapi.DeviceAllocationMode, count int64, path *field.Path) field.ErrorList {
	switch mode {
	case resourceapi.DeviceAllocationModeExactCount:
		if count <= 0 {
			return field.ErrorList{field.Invalid(path.Child("count"), count, "must be greater than zero")}
		}
	case resourceapi.DeviceAllocationModeAll:
		if count != 0 {
			return field.ErrorList{field.Invalid(path.Child("count"), count, "must not be set when allocationMode is All")}
		}
	default:
		return field.ErrorList{field.NotSupported(path.Child("allocationMode"), resourceapi.DeviceAllocationMode(shorten(string(mode))),
			[]resourceapi.DeviceAllocationMode{resourceapi.DeviceAllocationModeAll, resourceapi.DeviceAllocationModeExactCount})}
	}
	return nil
}
