// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimStatus validates the consumers of a claim, and its allocation.
func claimStatus(claim *resourceapi.ResourceClaim, path *field.Path) field.ErrorList {
	errs := reservedFor(claim.Status.ReservedFor, path.Child("reservedFor"))
	if claim.Status.Allocation == nil {
		return errs
	}
	known := requestNames(claim.Spec.Devices.Requests)
	devices, at := claim.Status.Allocation.Devices, path.Child("allocation", "devices")
	errs = append(errs, tooMany(at.Child("results"), len(devices.Results), resourceapi.AllocationResultsMaxSize)...)
	for i := range devices.Results {
		errs = append(errs, result(&devices.Results[i], known, at.Child("results").Index(i))...)
	}
	return append(errs, allocatedConfigs(devices.Config, known, at.Child("config"))...)
}

func reservedFor(consumers []resourceapi.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(consumers), resourceapi.ResourceClaimReservedForMaxSize)
	seen := make(map[types.UID]bool)
	for i, consumer := range consumers {
		at := path.Index(i)
		errs = append(errs, needed(consumer.Resource, at.Child("resource"))...)
		errs = append(errs, needed(consumer.Name, at.Child("name"))...)
		errs = append(errs, needed(string(consumer.UID), at.Child("uid"))...)
		if consumer.UID != "" && seen[consumer.UID] {
			errs = append(errs, field.Duplicate(at.Child("uid"), shorten(string(consumer.UID))))
		}
		seen[consumer.UID] = true
	}
	return errs
}

func needed(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func result(result *resourceapi.DeviceRequestAllocationResult, known map[string]bool, path *field.Path) field.ErrorList {
	errs := reference(result.Request, known, path.Child("request"))
	errs = append(errs, driverName(result.Driver, path.Child("driver"))...)
	errs = append(errs, poolName(result.Pool, path.Child("pool"))...)
	errs = append(errs, label(result.Device, path.Child("device"))...)
	return append(errs, capacityRequests(result.ConsumedCapacity, path.Child("consumedCapacity"))...)
}

// allocatedConfigs validates configs of an allocation, which come from the class and from the
// claim.
func allocatedConfigs(configs []resourceapi.DeviceAllocationConfiguration, known map[string]bool, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(configs), 2*resourceapi.DeviceConfigMaxSize)
	for i, config := range configs {
		errs = append(errs, references(config.Requests, known, path.Index(i).Child("requests"))...)
		errs = append(errs, configuration(config.DeviceConfiguration, path.Index(i))...)
	}
	return errs
}
