// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// SetPoolDefaults sets missing block sizes of resources to 1. An empty node name becomes nil.
func SetPoolDefaults(pool *DevicePool) {
	if ptr.Deref(pool.Spec.NodeName, "") == "" {
		pool.Spec.NodeName = nil
	}
	setBlockSizes(pool.Spec.Resources)
	for i := range pool.Spec.Devices {
		setBlockSizes(pool.Spec.Devices[i].Resources)
	}
}

func setBlockSizes(resources []ResourceCapacity) {
	for i := range resources {
		if resources[i].BlockSize == nil {
			resources[i].BlockSize = resource.NewQuantity(1, resource.DecimalSI)
		}
	}
}

// SetClaimDefaults sets the request of claims that request nothing to one device.
func SetClaimDefaults(claim *DeviceClaim) {
	for i := range claim.Spec.Claims {
		instance := &claim.Spec.Claims[i]
		if len(instance.OneOf) == 0 {
			setRequests(&instance.DeviceClaimDetail)
		}
		for j := range instance.OneOf {
			setRequests(&instance.OneOf[j])
		}
	}
}

func setRequests(detail *DeviceClaimDetail) {
	if len(detail.Requests) == 0 {
		detail.Requests = map[string]resource.Quantity{ResourceCount: *resource.NewQuantity(1, resource.DecimalSI)}
	}
}
