// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// holding is what one result of an allocation has of a device.
type holding struct {
	claim    types.NamespacedName
	share    types.UID // empty for all of it
	consumed map[resourceapi.QualifiedName]resource.Quantity
}

// String names the claim, and the share if it is one.
func (h holding) String() string {
	if h.share == "" {
		return h.claim.String()
	}
	return h.claim.String() + " as share " + string(h.share)
}

// holdings are the devices of a claim but for those with admin access, which take nothing.
func holdings(claim *resourceapi.ResourceClaim) iter.Seq2[DeviceID, holding] {
	return func(yield func(DeviceID, holding) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			held := holding{claim: types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}, consumed: result.ConsumedCapacity}
			if result.ShareID != nil {
				held.share = *result.ShareID
			}
			if !yield(DeviceID{result.Driver, result.Pool, result.Device}, held) {
				return
			}
		}
	}
}
