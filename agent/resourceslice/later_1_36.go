// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build dray_kubernetes_1_36

package resourceslice

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// This file replaces later.go for drivers with the libraries of Kubernetes 1.36.

// selectorPoolName is refused by API servers of 1.36. The controller then lists without it.
const selectorPoolName = "spec.pool.name"

var laterGates = []fieldGate{
	{"DRANodeAllocatableResources", perDevice(func(d *resourceapi.Device) int { return len(nodeAllocatable(d)) })},
}

func nodeAllocatable(d *resourceapi.Device) map[corev1.ResourceName]resourceapi.NodeAllocatableResourceMapping {
	return d.NodeAllocatableResourceMappings
}

func compatibilityGroups(*resourceapi.DeviceCounterConsumption) []string { return nil }

func sameLaterFields(_, _ *Slice) bool { return true }

func readLaterFields(*Slice, *resourceapi.ResourceSliceSpec) {}

func writeLaterFields(*resourceapi.ResourceSliceSpec, *Slice) {}

func withoutPartitions(*Slice) {}

// mutations has the stored slices, including responses to writes that the watch has not delivered
// yet. As in upstream's controller of 1.36, it caches a hundred responses. The response to a write
// stays for its whole TTL, even if the slice is deleted. checkLater looks again after that.
type mutations struct{ cache.MutationCache }

func newMutations(logger klog.Logger, stored cache.Indexer, ttl time.Duration) mutations {
	return mutations{cache.NewIntegerResourceVersionMutationCache(logger, stored, stored, ttl, true)}
}

// OnAddOrUpdate does nothing: the cache detects that its response is not newer.
func (mutations) OnAddOrUpdate(any) {}

// OnDelete does nothing.
func (mutations) OnDelete(any) {}
