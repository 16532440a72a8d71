// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scoring

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// Prioritizes reports whether any claim has a prioritized list.
func Prioritizes(claims []*claimstate.Claim) bool {
	return slices.ContainsFunc(claims, func(claim *claimstate.Claim) bool {
		return slices.ContainsFunc(claim.Object.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool { return len(r.FirstAvailable) > 0 })
	})
}

// Lists adds up the scores of the alternatives that a pod's claims got, and the highest possible ones. The
// assignment is for the claims in assigned, in order. It may be nil.
func Lists(all, assigned []*claimstate.Claim, assignment *allocator.Assignment) (earned, most int64) {
	count := func(claim *resourceapi.ResourceClaim, chosen map[string]bool) {
		of, best := scoreOf(claim, chosen)
		earned, most = earned+of, most+best
	}
	for _, claim := range all {
		if allocation := claim.Allocated(); allocation != nil {
			count(claim.Object, requestsOf(allocation))
		}
	}
	if assignment == nil {
		return earned, most
	}
	chosen := make([]map[string]bool, len(assigned))
	for i := range chosen {
		chosen[i] = make(map[string]bool)
	}
	for _, choice := range assignment.Choices() {
		chosen[choice.Claim][choice.Request] = true
	}
	for i, claim := range assigned {
		count(claim.Object, chosen[i])
	}
	return earned, most
}

func requestsOf(allocation *resourceapi.AllocationResult) map[string]bool {
	requests := make(map[string]bool)
	for i := range allocation.Devices.Results {
		requests[allocation.Devices.Results[i].Request] = true
	}
	return requests
}

// scoreOf returns the score of the chosen alternatives of prioritized lists, which is highest for the first alternative, and the highest possible one.
func scoreOf(claim *resourceapi.ResourceClaim, chosen map[string]bool) (earned, most int64) {
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if len(request.FirstAvailable) > 0 {
			most += resourceapi.FirstAvailableDeviceRequestMaxSize
		}
		for rank := range request.FirstAvailable {
			if chosen[resourceclaim.CreateSubRequestRef(request.Name, request.FirstAvailable[rank].Name)] {
				earned += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - rank)
			}
		}
	}
	return earned, most
}
