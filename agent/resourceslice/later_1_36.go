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

// What is in this file takes the place of later.go for drivers with the libraries of
// Kubernetes 1.36.

// selectorPoolName is refused by API servers of 1.36: selecting does without it then.
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

// mutations are what is stored, with answers to writes that the watch has not seen. As with
// upstream's controller of 1.36, a hundred answers are kept, and one to a create is kept for its
// time even if the slice is deleted.
type mutations struct{ cache.MutationCache }

func newMutations(logger klog.Logger, stored cache.Indexer, ttl time.Duration) mutations {
	return mutations{cache.NewIntegerResourceVersionMutationCache(logger, stored, stored, ttl, true)}
}

// OnAddOrUpdate does nothing: an answer that the watch has seen is not newer.
func (mutations) OnAddOrUpdate(any) {}

// OnDelete does nothing.
func (mutations) OnDelete(any) {}
