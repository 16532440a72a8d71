// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func (c *Checker) devices(spec *resourceapi.ResourceSliceSpec, path *field.Path) field.ErrorList {
	if errs := tooMany(path, len(spec.Devices), maxDevices(spec.Devices)); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	seen := make(map[string]bool)
	for i := range spec.Devices {
		at := path.Index(i)
		errs = append(errs, uniqueLabel(spec.Devices[i].Name, seen, at.Child("name"))...)
		errs = append(errs, c.device(&spec.Devices[i], at)...)
		errs = append(errs, deviceReach(&spec.Devices[i], ptr.Deref(spec.PerDeviceNodeSelection, false), at)...)
	}
	return errs
}

// maxDevices returns the maximum number of devices in a slice. It is lower if a device uses
// features that make slices large.
func maxDevices(devices []resourceapi.Device) int {
	for i := range devices {
		if len(devices[i].Taints) > 0 || len(devices[i].ConsumesCounters) > 0 || hasLists(&devices[i]) {
			return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	return resourceapi.ResourceSliceMaxDevices
}

func hasLists(device *resourceapi.Device) bool {
	for _, attribute := range device.Attributes {
		if len(attribute.IntValues)+len(attribute.BoolValues)+len(attribute.StringValues)+len(attribute.VersionValues) > 0 {
			return true
		}
	}
	return false
}

func (c *Checker) device(device *resourceapi.Device, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(device.Attributes)+len(device.Capacity), resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	errs = append(errs, attributes(device.Attributes, path.Child("attributes"))...)
	multiple := ptr.Deref(device.AllowMultipleAllocations, false)
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		errs = append(errs, c.capacity(name, device.Capacity[name], multiple, path.Child("capacity"))...)
	}
	errs = append(errs, tooMany(path.Child("taints"), len(device.Taints), resourceapi.DeviceTaintsMaxLength)...)
	for i, each := range device.Taints {
		errs = append(errs, taint(each, path.Child("taints").Index(i))...)
	}
	errs = append(errs, binding(device.BindingConditions, device.BindingFailureConditions, path)...)
	return append(errs, consumption(device.ConsumesCounters, path.Child("consumesCounters"))...)
}

func deviceReach(device *resourceapi.Device, perDevice bool, path *field.Path) field.ErrorList {
	set := 0
	for _, isSet := range []bool{device.NodeName != nil, device.NodeSelector != nil, device.AllNodes != nil} {
		if isSet {
			set++
		}
	}
	switch {
	case perDevice && set != 1:
		return field.ErrorList{field.Invalid(path, set, "with perDeviceNodeSelection, must set exactly one of nodeName, nodeSelector and allNodes")}
	case !perDevice && set > 0:
		return field.ErrorList{field.Forbidden(path, "nodeName, nodeSelector and allNodes need perDeviceNodeSelection")}
	}
	return reach(device.NodeName, device.NodeSelector, device.AllNodes, path)
}

func consumption(uses []resourceapi.DeviceCounterConsumption, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(uses), resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice)
	seen := make(map[string]bool)
	for i, use := range uses {
		at := path.Index(i)
		errs = append(errs, uniqueLabel(use.CounterSet, seen, at.Child("counterSet"))...)
		errs = append(errs, counters(use.Counters, at.Child("counters"))...)
		errs = append(errs, groups(use.CompatibilityGroups, at.Child("compatibilityGroups"))...)
	}
	return errs
}

func groups(names []string, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(names), resourceapi.DeviceCompatibilityGroupsMaxSize)
	seen := make(map[string]bool)
	for i, name := range names {
		errs = append(errs, uniqueLabel(name, seen, path.Index(i))...)
	}
	return errs
}
