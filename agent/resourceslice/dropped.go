// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

// DroppedFieldsError says that the API server dropped fields of a slice, because feature gates are
// disabled. The slice is not written again before the driver's next Update.
type DroppedFieldsError struct {
	PoolName   string
	SliceIndex int
	// DesiredSlice was sent, ActualSlice was stored.
	DesiredSlice, ActualSlice *resourceapi.ResourceSlice
}

// Error names the disabled feature gates, or says that none explains the difference.
func (err *DroppedFieldsError) Error() string {
	features := err.DisabledFeatures()
	if len(features) == 0 {
		return fmt.Sprintf("pool %q: slice %d: the API server stored something else than it was given; no feature gate is known to explain it", err.PoolName, err.SliceIndex)
	}
	return fmt.Sprintf("pool %q: slice %d: the API server dropped fields; feature gates that seem to be off: %s", err.PoolName, err.SliceIndex, strings.Join(features, ", "))
}

// As makes errors.As find upstream's error of this name, for drivers that still look for that type.
func (err *DroppedFieldsError) As(target any) bool {
	theirs, ok := target.(**upstream.DroppedFieldsError)
	if ok {
		*theirs = &upstream.DroppedFieldsError{PoolName: err.PoolName, SliceIndex: err.SliceIndex, DesiredSlice: err.DesiredSlice, ActualSlice: err.ActualSlice}
	}
	return ok
}

// DisabledFeatures returns the feature gates that explain the missing fields.
func (err *DroppedFieldsError) DisabledFeatures() []string {
	var off []string
	for _, feature := range slices.Concat(fieldGates, laterGates) {
		if feature.lost(&err.DesiredSlice.Spec, &err.ActualSlice.Spec) {
			off = append(off, feature.gate)
		}
	}
	return off
}

// fieldGate is a feature gate without which the API server drops fields of ResourceSlices.
type fieldGate struct {
	gate string
	lost func(desired, actual *resourceapi.ResourceSliceSpec) bool
}

// fieldGates are the gates of fields that also exist in Kubernetes 1.36.
var fieldGates = []fieldGate{
	{"DRADeviceTaints", perDevice(func(d *resourceapi.Device) int { return len(d.Taints) })},
	{"DRAPartitionableDevices", func(desired, actual *resourceapi.ResourceSliceSpec) bool {
		return ptr.Deref(desired.PerDeviceNodeSelection, false) && !ptr.Deref(actual.PerDeviceNodeSelection, false) ||
			len(desired.SharedCounters) > len(actual.SharedCounters) ||
			perDevice(func(d *resourceapi.Device) int { return len(d.ConsumesCounters) })(desired, actual)
	}},
	{"DRADeviceBindingConditions", perDevice(func(d *resourceapi.Device) int {
		return len(d.BindingConditions) + len(d.BindingFailureConditions) + one(d.BindsToNode)
	})},
	{"DRAConsumableCapacity", perDevice(func(d *resourceapi.Device) int {
		count := one(d.AllowMultipleAllocations)
		for _, capacity := range d.Capacity {
			count += one(capacity.RequestPolicy)
		}
		return count
	})},
	{"DRAListTypeAttributes", perDevice(func(d *resourceapi.Device) int {
		count := 0
		for _, attribute := range d.Attributes {
			count += len(attribute.IntValues) + len(attribute.BoolValues) + len(attribute.StringValues) + len(attribute.VersionValues)
		}
		return count
	})},
}

// perDevice returns a function that tells whether a device lost entries, by count.
func perDevice(count func(*resourceapi.Device) int) func(desired, actual *resourceapi.ResourceSliceSpec) bool {
	return func(desired, actual *resourceapi.ResourceSliceSpec) bool {
		for i := range min(len(desired.Devices), len(actual.Devices)) {
			if count(&desired.Devices[i]) > count(&actual.Devices[i]) {
				return true
			}
		}
		return false
	}
}

func one[T any](p *T) int {
	if p == nil {
		return 0
	}
	return 1
}
