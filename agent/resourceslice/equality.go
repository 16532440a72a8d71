// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// DevicesDeepEqual tells whether devices are equal, in the same order. Nil and empty lists and maps
// are equal, and quantities are compared by value. Times at which a taint was added are equal if
// one side has none. They may differ by up to one second, since the API stores whole seconds.
func DevicesDeepEqual(a, b []resourceapi.Device) bool {
	return sameDevices(a, b, sameStoredTaint)
}

func sameStoredTaint(a, b resourceapi.DeviceTaint) bool {
	if a.TimeAdded != nil && b.TimeAdded != nil && a.TimeAdded.Sub(b.TimeAdded.Time).Abs() > time.Second {
		return false
	}
	return sameTaintKind(a, b)
}

// sameTaint compares times at the API's resolution of one second.
func sameTaint(a, b resourceapi.DeviceTaint) bool {
	if a.TimeAdded == nil || b.TimeAdded == nil {
		return a.TimeAdded == b.TimeAdded && sameTaintKind(a, b)
	}
	return a.TimeAdded.Round(time.Second).Equal(b.TimeAdded.Round(time.Second)) && sameTaintKind(a, b)
}

// sameTaintKind ignores when the taints were added.
func sameTaintKind(a, b resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// The functions below are equivalent to apiequality.Semantic, without reflection. Drivers repeat
// all devices in each Update, so comparing them dominates the cost of most updates. A test compares
// both for each field of the API types.

func sameDevices(a, b []resourceapi.Device, taints func(a, b resourceapi.DeviceTaint) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameDevice(&a[i], &b[i], taints) {
			return false
		}
	}
	return true
}

func sameDevice(a, b *resourceapi.Device, taints func(a, b resourceapi.DeviceTaint) bool) bool {
	return a.Name == b.Name &&
		maps.EqualFunc(a.Attributes, b.Attributes, sameAttribute) &&
		maps.EqualFunc(a.Capacity, b.Capacity, sameCapacity) &&
		slices.EqualFunc(a.ConsumesCounters, b.ConsumesCounters, sameConsumption) &&
		ptr.Equal(a.NodeName, b.NodeName) &&
		samePointed(a.NodeSelector, b.NodeSelector) &&
		ptr.Equal(a.AllNodes, b.AllNodes) &&
		slices.EqualFunc(a.Taints, b.Taints, taints) &&
		ptr.Equal(a.BindsToNode, b.BindsToNode) &&
		slices.Equal(a.BindingConditions, b.BindingConditions) &&
		slices.Equal(a.BindingFailureConditions, b.BindingFailureConditions) &&
		ptr.Equal(a.AllowMultipleAllocations, b.AllowMultipleAllocations) &&
		(len(nodeAllocatable(a))+len(nodeAllocatable(b)) == 0 ||
			apiequality.Semantic.DeepEqual(nodeAllocatable(a), nodeAllocatable(b)))
}

func sameAttribute(a, b resourceapi.DeviceAttribute) bool {
	return ptr.Equal(a.IntValue, b.IntValue) &&
		ptr.Equal(a.BoolValue, b.BoolValue) &&
		ptr.Equal(a.StringValue, b.StringValue) &&
		ptr.Equal(a.VersionValue, b.VersionValue) &&
		slices.Equal(a.IntValues, b.IntValues) &&
		slices.Equal(a.BoolValues, b.BoolValues) &&
		slices.Equal(a.StringValues, b.StringValues) &&
		slices.Equal(a.VersionValues, b.VersionValues)
}

func sameCapacity(a, b resourceapi.DeviceCapacity) bool {
	return a.Value.Cmp(b.Value) == 0 && samePointed(a.RequestPolicy, b.RequestPolicy)
}

func sameConsumption(a, b resourceapi.DeviceCounterConsumption) bool {
	return a.CounterSet == b.CounterSet &&
		maps.EqualFunc(a.Counters, b.Counters, sameCounter) &&
		slices.Equal(compatibilityGroups(&a), compatibilityGroups(&b))
}

func sameCounterSet(a, b resourceapi.CounterSet) bool {
	return a.Name == b.Name && maps.EqualFunc(a.Counters, b.Counters, sameCounter)
}

func sameCounter(a, b resourceapi.Counter) bool { return a.Value.Cmp(b.Value) == 0 }

// samePointed uses reflection, for fields that are rarely set.
func samePointed[T any](a, b *T) bool {
	return a == b || apiequality.Semantic.DeepEqual(a, b)
}

// sameSlice tells whether the driver repeated a slice unchanged.
func sameSlice(a, b *Slice) bool {
	return sameDevices(a.Devices, b.Devices, sameTaint) && sameBesidesDevices(a, b)
}

// sameStored tells whether a write of desired would leave stored unchanged.
func sameStored(desired, stored *Slice) bool {
	return DevicesDeepEqual(desired.Devices, stored.Devices) && sameBesidesDevices(desired, stored)
}

func sameBesidesDevices(a, b *Slice) bool {
	return slices.EqualFunc(a.SharedCounters, b.SharedCounters, sameCounterSet) &&
		ptr.Equal(a.PerDeviceNodeSelection, b.PerDeviceNodeSelection) &&
		sameLaterFields(a, b)
}

// sliceOf returns the part of a ResourceSlice that drivers set. It shares memory with spec.
func sliceOf(spec *resourceapi.ResourceSliceSpec) *Slice {
	slice := &Slice{
		Devices:                spec.Devices,
		SharedCounters:         spec.SharedCounters,
		PerDeviceNodeSelection: spec.PerDeviceNodeSelection,
	}
	readLaterFields(slice, spec)
	return slice
}

// roundTaintTimes truncates times to seconds, as the API stores them.
func roundTaintTimes(devices []resourceapi.Device) {
	for i := range devices {
		for j := range devices[i].Taints {
			if taint := &devices[i].Taints[j]; taint.TimeAdded != nil {
				taint.TimeAdded = &metav1.Time{Time: taint.TimeAdded.Round(time.Second)}
			}
		}
	}
}

// withKnownTaintTimes returns devices in which a taint without a time gets the time of the same
// stored taint. Otherwise each write would reset the times. Arguments are not modified.
func withKnownTaintTimes(devices, stored []resourceapi.Device) []resourceapi.Device {
	if !slices.ContainsFunc(devices, hasUntimedTaint) {
		return devices
	}
	known := make(map[string][]resourceapi.DeviceTaint)
	for i := range stored {
		if len(stored[i].Taints) > 0 {
			known[stored[i].Name] = stored[i].Taints
		}
	}
	out := slices.Clone(devices)
	for i := range out {
		out[i].Taints = withKnownTimes(out[i].Taints, known[out[i].Name])
	}
	return out
}

func hasUntimedTaint(device resourceapi.Device) bool {
	return slices.ContainsFunc(device.Taints, func(taint resourceapi.DeviceTaint) bool { return taint.TimeAdded == nil })
}

func withKnownTimes(taints, known []resourceapi.DeviceTaint) []resourceapi.DeviceTaint {
	if len(known) == 0 {
		return taints
	}
	out := slices.Clone(taints)
	for i := range out {
		if out[i].TimeAdded != nil {
			continue
		}
		at := slices.IndexFunc(known, func(taint resourceapi.DeviceTaint) bool { return sameTaintKind(taint, out[i]) })
		if at >= 0 {
			out[i].TimeAdded = known[at].TimeAdded
		}
	}
	return out
}
