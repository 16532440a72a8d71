// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimStatus validates the consumers of a claim, and its allocation.
func claimStatus(claim *resourceapi.ResourceClaim, path *field.Path) field.ErrorList {
	errs := reservedFor(claim.Status.ReservedFor, path.Child("reservedFor"))
	allocation := claim.Status.Allocation
	if allocation == nil {
		if len(claim.Status.ReservedFor) > 0 {
			errs = append(errs, field.Forbidden(path.Child("reservedFor"), "needs an allocation"))
		}
		return errs
	}
	known := requestNames(claim.Spec.Devices.Requests)
	devices, at := allocation.Devices, path.Child("allocation", "devices")
	errs = append(errs, tooMany(at.Child("results"), len(devices.Results), resourceapi.AllocationResultsMaxSize)...)
	for i := range devices.Results {
		errs = append(errs, result(&devices.Results[i], known, at.Child("results").Index(i))...)
	}
	errs = append(errs, allocatedConfigs(devices.Config, known, at.Child("config"))...)
	if allocation.NodeSelector != nil {
		errs = append(errs, nodeSelector(allocation.NodeSelector, path.Child("allocation", "nodeSelector"))...)
	}
	return errs
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
	for i, each := range result.Tolerations {
		errs = append(errs, toleration(each, path.Child("tolerations").Index(i))...)
	}
	if id := result.ShareID; id != nil {
		errs = append(errs, validate.UUID(context.Background(), operation.Operation{}, path.Child("shareID"), id, nil)...)
	}
	errs = append(errs, skipped(result.SkipNodeOperations, path.Child("skipNodeOperations"))...)
	return append(errs, binding(result.BindingConditions, result.BindingFailureConditions, path)...)
}

// allocatedConfigs validates configs of an allocation, which come from the class and from the
// claim.
func allocatedConfigs(configs []resourceapi.DeviceAllocationConfiguration, known map[string]bool, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(configs), 2*resourceapi.DeviceConfigMaxSize)
	for i, config := range configs {
		switch at := path.Index(i).Child("source"); config.Source {
		case resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim:
		case "":
			errs = append(errs, field.Required(at, ""))
		default:
			errs = append(errs, field.NotSupported(at, resourceapi.AllocationConfigSource(shorten(string(config.Source))),
				[]resourceapi.AllocationConfigSource{resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim}))
		}
		errs = append(errs, references(config.Requests, known, path.Index(i).Child("requests"))...)
		errs = append(errs, configuration(config.DeviceConfiguration, path.Index(i))...)
	}
	return errs
}
