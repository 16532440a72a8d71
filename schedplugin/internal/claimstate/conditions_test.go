// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWaiting(t *testing.T) {
	claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	for _, device := range []string{"gpu-0", "gpu-1"} {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Driver: "gpu.example.com", Pool: "a", Device: device, BindingConditions: []string{"attached", "flashed"},
		})
	}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "gpu.example.com", Pool: "a", Device: "gpu-1",
		Conditions: []metav1.Condition{{Type: "attached", Status: metav1.ConditionTrue}},
	}}
	parts := strings.Split(Waiting([]*Claim{{Object: claim}}), "; ")
	want := []string{"device gpu.example.com/a/gpu-0: not attached, flashed", "device gpu.example.com/a/gpu-1: not flashed"}
	if !slices.Equal(parts, want) {
		t.Errorf("%q, want %q", parts, want)
	}
}
