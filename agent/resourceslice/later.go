// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !dray_kubernetes_1_36

package resourceslice

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// This file needs the libraries of Kubernetes 1.37 or later. With those of 1.36, later_1_36.go
// replaces it.

const selectorPoolName = resourceapi.ResourceSliceSelectorPoolName

// laterGates are the gates of fields that Kubernetes 1.36 lacks, or has under another name.
var laterGates = []fieldGate{
	{"DRAPartitionableDevicesType", func(desired, actual *resourceapi.ResourceSliceSpec) bool {
		return desired.PartitionTypeAttribute != nil && actual.PartitionTypeAttribute == nil
	}},
	{"DRAOptionalNodeOperations", func(desired, actual *resourceapi.ResourceSliceSpec) bool {
		return len(desired.SkipNodeOperations) > len(actual.SkipNodeOperations)
	}},
	{"DRADeviceCompatibilityGroups", lostGroups},
	{"DRANodeAllocatableResources", perDevice(func(d *resourceapi.Device) int { return len(d.NodeAllocatableResources) })},
}

// lostGroups tells whether compatibility groups of counter consumptions were dropped. It ignores
// consumptions that were dropped entirely, which another gate explains.
func lostGroups(desired, actual *resourceapi.ResourceSliceSpec) bool {
	for i := range min(len(desired.Devices), len(actual.Devices)) {
		wanted, stored := desired.Devices[i].ConsumesCounters, actual.Devices[i].ConsumesCounters
		for j := range min(len(wanted), len(stored)) {
			if len(wanted[j].CompatibilityGroups) > len(stored[j].CompatibilityGroups) {
				return true
			}
		}
	}
	return false
}

func nodeAllocatable(d *resourceapi.Device) map[corev1.ResourceName]resourceapi.NodeAllocatableResource {
	return d.NodeAllocatableResources
}

func compatibilityGroups(c *resourceapi.DeviceCounterConsumption) []string {
	return c.CompatibilityGroups
}

func sameLaterFields(a, b *Slice) bool {
	return ptr.Equal(a.PartitionTypeAttribute, b.PartitionTypeAttribute) && slices.Equal(a.SkipNodeOperations, b.SkipNodeOperations)
}

func readLaterFields(slice *Slice, spec *resourceapi.ResourceSliceSpec) {
	slice.PartitionTypeAttribute, slice.SkipNodeOperations = spec.PartitionTypeAttribute, spec.SkipNodeOperations
}

func writeLaterFields(spec *resourceapi.ResourceSliceSpec, slice *Slice) {
	spec.PartitionTypeAttribute, spec.SkipNodeOperations = slice.PartitionTypeAttribute, slice.SkipNodeOperations
}

// withoutPartitions clears the field that is valid only with devices that consume counters.
func withoutPartitions(slice *Slice) { slice.PartitionTypeAttribute = nil }

// mutations has the stored slices, including responses to writes that the watch has not delivered
// yet.
type mutations = cache.MutationCache

// maxMutations bounds the number of cached responses. It exceeds the number of slices of one
// driver. If the response to a create were evicted, the slice would be created twice.
const maxMutations = 1 << 20

func newMutations(logger klog.Logger, stored cache.Indexer, ttl time.Duration) mutations {
	return cache.NewIntegerResourceVersionMutationCacheWithOptions(logger, stored, cache.MutationCacheOptions{
		Indexer: stored, TTL: ttl, IncludeAdds: true, MaxCacheSize: maxMutations,
	})
}
