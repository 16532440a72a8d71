// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// judgedByReachableSlices tells whether the slices of a pool that reach the node look
// complete, while the whole pool is outdated or has another number of slices.
func judgedByReachableSlices(f allocator.Features, pool []*resourceapi.ResourceSlice, node *corev1.Node) bool {
	var newest, reached int64 = -1, -1
	for _, slice := range pool {
		newest = max(newest, slice.Spec.Pool.Generation)
		if considered(f, slice) && reaches(slice, node) {
			reached = max(reached, slice.Spec.Pool.Generation)
		}
	}
	if reached < 0 {
		return false
	}
	var onNode, anywhere int64
	counts := make(map[int64]bool)
	for _, slice := range pool {
		if slice.Spec.Pool.Generation != reached || !f.CompatibilityGroups && declaresGroups(slice) {
			continue
		}
		counts[slice.Spec.Pool.ResourceSliceCount] = true
		anywhere++
		if considered(f, slice) && reaches(slice, node) {
			onNode++
		}
	}
	return len(counts) > 1 || counts[onNode] && (newest > reached || anywhere != onNode)
}

// considered is false for slices that are passed over because a feature is off.
func considered(f allocator.Features, slice *resourceapi.ResourceSlice) bool {
	if !f.PartitionableDevices && (slice.Spec.PerDeviceNodeSelection != nil || len(slice.Spec.SharedCounters) > 0) {
		return false
	}
	return f.CompatibilityGroups || !declaresGroups(slice)
}

func declaresGroups(slice *resourceapi.ResourceSlice) bool {
	for _, device := range slice.Spec.Devices {
		for _, consumption := range device.ConsumesCounters {
			if len(consumption.CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}
