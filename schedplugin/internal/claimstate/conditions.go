// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why the devices of a pod do not become ready.
var (
	ErrBindingTimeout = errors.New("device binding timeout")
	ErrBindingFailed  = errors.New("device binding failed")
)

// BindsConditionally reports whether devices of the claim have binding conditions.
func BindsConditionally(claim *resourceapi.ResourceClaim) bool {
	allocation := claim.Status.Allocation
	return allocation != nil && slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.BindingConditions) > 0
	})
}

// Ready reports whether the binding conditions of all devices of a claim are met. It is an error if a binding
// failure condition is met.
func Ready(claim *resourceapi.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		if len(results[i].BindingConditions) == 0 {
			continue
		}
		conditions, reported := reportedConditions(claim, &results[i])
		if !reported {
			return false, nil
		}
		for _, name := range results[i].BindingFailureConditions {
			if failure := apimeta.FindStatusCondition(conditions, name); failure != nil && failure.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", ErrBindingFailed, claim.Name, failure.Reason, failure.Message)
			}
		}
		if len(unmet(conditions, results[i].BindingConditions)) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// reportedConditions returns the conditions that the driver reports for a device. It is false if there is no report.
func reportedConditions(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) ([]metav1.Condition, bool) {
	for i := range claim.Status.Devices {
		status := &claim.Status.Devices[i]
		if status.Device == result.Device && status.Driver == result.Driver && status.Pool == result.Pool {
			return status.Conditions, true
		}
	}
	return nil, false
}

func unmet(conditions []metav1.Condition, names []string) []string {
	var list []string
	for _, name := range names {
		if !apimeta.IsStatusConditionTrue(conditions, name) {
			list = append(list, name)
		}
	}
	return list
}

// Waiting lists the devices whose binding conditions are not met, for messages.
func Waiting(claims []*Claim) string {
	var parts []string
	for _, claim := range claims {
		if claim.Object.Status.Allocation == nil {
			continue
		}
		for i := range claim.Object.Status.Allocation.Devices.Results {
			result := &claim.Object.Status.Allocation.Devices.Results[i]
			conditions, _ := reportedConditions(claim.Object, result)
			if open := unmet(conditions, result.BindingConditions); len(open) > 0 {
				parts = append(parts, fmt.Sprintf("device %s/%s/%s: not %s", result.Driver, result.Pool, result.Device, strings.Join(open, ", ")))
			}
		}
	}
	return strings.Join(parts, "; ")
}
