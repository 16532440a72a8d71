// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Claim returns the errors of a claim.
func Claim(claim *v1alpha1.DeviceClaim) field.ErrorList {
	spec := field.NewPath("spec")
	errs := objectName(claim)
	errs = append(errs, matchAttributes(claim.Spec.MatchAttributes, spec.Child("matchAttributes"))...)
	errs = append(errs, matchAttributes(claim.Spec.PreferredMatchAttributes, spec.Child("preferredMatchAttributes"))...)
	if len(claim.Spec.Claims) == 0 {
		errs = append(errs, field.Required(spec.Child("claims"), ""))
	}
	for i := range claim.Spec.Claims {
		errs = append(errs, instance(&claim.Spec.Claims[i], spec.Child("claims").Index(i))...)
	}
	return append(errs, status(&claim.Status, field.NewPath("status"))...)
}

func instance(instance *v1alpha1.DeviceClaimInstance, path *field.Path) field.ErrorList {
	if len(instance.OneOf) == 0 {
		return detail(&instance.DeviceClaimDetail, path)
	}
	var errs field.ErrorList
	if !isEmpty(&instance.DeviceClaimDetail) {
		errs = append(errs, field.Forbidden(path.Child("oneOf"), "must be left out if the claim has other fields"))
	}
	for j := range instance.OneOf {
		errs = append(errs, detail(&instance.OneOf[j], path.Child("oneOf").Index(j))...)
	}
	return errs
}

func isEmpty(detail *v1alpha1.DeviceClaimDetail) bool {
	return detail.DeviceType == nil && detail.DeviceClass == nil && detail.Constraints == nil && len(detail.Requests) == 0 &&
		len(detail.Limits) == 0 && len(detail.MatchAttributes) == 0 && len(detail.PreferredMatchAttributes) == 0 && len(detail.Configs) == 0
}

func detail(detail *v1alpha1.DeviceClaimDetail, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case detail.DeviceClass == nil && detail.DeviceType == nil:
		errs = append(errs, field.Required(path.Child("deviceClass"), "either deviceClass or deviceType must be set"))
	case detail.DeviceClass != nil && detail.DeviceType != nil:
		errs = append(errs, field.Forbidden(path.Child("deviceType"), "must be left out if deviceClass is set"))
	case detail.DeviceClass != nil:
		errs = append(errs, subdomain(*detail.DeviceClass, path.Child("deviceClass"))...)
	default:
		errs = append(errs, required(*detail.DeviceType, path.Child("deviceType"))...)
	}
	errs = append(errs, constraints(detail.Constraints, path.Child("constraints"))...)
	errs = append(errs, requested(detail.Requests, path.Child("requests"))...)
	errs = append(errs, requested(detail.Limits, path.Child("limits"))...)
	errs = append(errs, limits(detail, path.Child("limits"))...)
	errs = append(errs, matchAttributes(detail.MatchAttributes, path.Child("matchAttributes"))...)
	errs = append(errs, matchAttributes(detail.PreferredMatchAttributes, path.Child("preferredMatchAttributes"))...)
	for i, config := range detail.Configs {
		errs = append(errs, reference(config.APIVersion, config.Kind, config.Name, path.Child("configs").Index(i))...)
	}
	return errs
}

// requested validates amounts. The number of devices must be a whole number.
func requested(list map[string]resource.Quantity, path *field.Path) field.ErrorList {
	errs := amounts(list, path)
	if count, found := list[v1alpha1.ResourceCount]; found && count.Cmp(*resource.NewQuantity(count.Value(), count.Format)) != 0 {
		errs = append(errs, field.Invalid(path.Key(v1alpha1.ResourceCount), count.String(), "must be a whole number"))
	}
	return errs
}

func limits(detail *v1alpha1.DeviceClaimDetail, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(detail.Limits)) {
		limit, least := detail.Limits[name], detail.Requests[name]
		if _, found := detail.Requests[name]; !found && name == v1alpha1.ResourceCount {
			least = *resource.NewQuantity(1, resource.DecimalSI) // no device provides no amount, so at least one is needed
		}
		if limit.Cmp(least) < 0 {
			errs = append(errs, field.Invalid(path.Key(shorten(name)), limit.String(), "must not be below the request, which is "+least.String()))
		}
	}
	return errs
}

func matchAttributes(list []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := make(names)
	for i, name := range list {
		errs = append(errs, seen.check(name, path.Index(i))...)
	}
	return errs
}

func status(status *v1alpha1.DeviceClaimStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range status.Allocations {
		allocation, at := &status.Allocations[i], path.Child("allocations").Index(i)
		errs = append(errs, allocated(allocation.DevicePoolName, allocation.DeviceName, allocation.Allocations, at)...)
	}
	for i := range status.DeviceStatuses {
		device, at := &status.DeviceStatuses[i], path.Child("deviceStatuses").Index(i)
		errs = append(errs, allocated(device.DevicePoolName, device.DeviceName, device.Allocations, at)...)
		errs = append(errs, addresses(device, at)...)
	}
	seen := make(names)
	for i, name := range status.PodNames {
		errs = append(errs, seen.check(name, path.Child("podNames").Index(i))...)
	}
	return errs
}

// allocated validates the reference to a device, and the amounts consumed.
func allocated(pool, device string, taken []v1alpha1.ResourceAllocation, path *field.Path) field.ErrorList {
	errs := required(pool, path.Child("devicePoolName"))
	errs = append(errs, required(device, path.Child("deviceName"))...)
	seen := make(names)
	for i, part := range taken {
		at := path.Child("allocations").Index(i)
		errs = append(errs, seen.check(part.Name, at.Child("name"))...)
		errs = append(errs, notNegative(part.Allocation, at.Child("allocation"))...)
	}
	return errs
}

func addresses(device *v1alpha1.DeviceStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, address := range device.DeviceIPs {
		errs = append(errs, ip(address.IP, path.Child("deviceIPs").Index(i).Child("ip"))...)
	}
	if device.DeviceIP == nil {
		if len(device.DeviceIPs) > 0 {
			errs = append(errs, field.Required(path.Child("deviceIP"), "must be the first of deviceIPs"))
		}
		return errs
	}
	errs = append(errs, ip(*device.DeviceIP, path.Child("deviceIP"))...)
	if len(device.DeviceIPs) > 0 && device.DeviceIPs[0].IP != *device.DeviceIP {
		errs = append(errs, field.Invalid(path.Child("deviceIPs").Index(0).Child("ip"), shorten(device.DeviceIPs[0].IP), "must be the same as deviceIP"))
	}
	return errs
}

func ip(address string, path *field.Path) field.ErrorList {
	if _, err := netip.ParseAddr(address); err != nil {
		return field.ErrorList{field.Invalid(path, shorten(address), "must be an IP address")}
	}
	return nil
}
