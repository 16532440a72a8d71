// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func (c *Checker) slice(spec *resourceapi.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := driverName(spec.Driver, path.Child("driver"))
	errs = append(errs, poolName(spec.Pool.Name, path.Child("pool", "name"))...)
	if spec.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("pool", "generation"), spec.Pool.Generation, "must not be negative"))
	}
	if spec.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("pool", "resourceSliceCount"), spec.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	errs = append(errs, sliceReach(spec, path)...)
	if len(spec.Devices) > 0 && len(spec.SharedCounters) > 0 {
		errs = append(errs, field.Forbidden(path.Child("sharedCounters"), "only one of devices and sharedCounters can be set"))
	}
	errs = append(errs, skipped(spec.SkipNodeOperations, path.Child("skipNodeOperations"))...)
	errs = append(errs, partitionType(spec, path)...)
	errs = append(errs, counterSets(spec.SharedCounters, path.Child("sharedCounters"))...)
	return append(errs, c.devices(spec, path.Child("devices"))...)
}

func sliceReach(spec *resourceapi.ResourceSliceSpec, path *field.Path) field.ErrorList {
	set := 0
	for _, isSet := range []bool{
		spec.NodeName != nil, spec.NodeSelector != nil, spec.AllNodes != nil, spec.PerDeviceNodeSelection != nil,
	} {
		if isSet {
			set++
		}
	}
	if !ptr.Deref(spec.PerDeviceNodeSelection, true) {
		return field.ErrorList{field.Invalid(path.Child("perDeviceNodeSelection"), false, "must be true or left out")}
	}
	if set != 1 {
		return field.ErrorList{field.Invalid(path, set, "must set exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection")}
	}
	if selector := spec.NodeSelector; selector != nil && len(selector.NodeSelectorTerms) > 1 {
		return field.ErrorList{field.Invalid(path.Child("nodeSelector", "nodeSelectorTerms"), len(selector.NodeSelectorTerms), "must have exactly one term")}
	}
	return reach(spec.NodeName, spec.NodeSelector, spec.AllNodes, path)
}

func reach(nodeName *string, selector *corev1.NodeSelector, allNodes *bool, path *field.Path) field.ErrorList {
	switch {
	case nodeName != nil:
		return subdomain(*nodeName, path.Child("nodeName"))
	case selector != nil:
		return nodeSelector(selector, path.Child("nodeSelector"))
	case !ptr.Deref(allNodes, true):
		return field.ErrorList{field.Invalid(path.Child("allNodes"), false, "must be true or left out")}
	}
	return nil
}

// partitionType validates the attribute for the kind of partitions: all devices that consume counters must have it, as a text.
func partitionType(spec *resourceapi.ResourceSliceSpec, path *field.Path) field.ErrorList {
	if spec.PartitionTypeAttribute == nil {
		return nil
	}
	name, at := string(*spec.PartitionTypeAttribute), path.Child("partitionTypeAttribute")
	if errs := fullyQualifiedName(name, at); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	partitions := false
	for i := range spec.Devices {
		device := &spec.Devices[i]
		if len(device.ConsumesCounters) == 0 {
			continue
		}
		partitions = true
		value, known := device.Attributes[resourceapi.QualifiedName(name)]
		if !known {
			value, known = device.Attributes[resourceapi.QualifiedName(strings.TrimPrefix(name, spec.Driver+"/"))]
		}
		if of := path.Child("devices").Index(i).Child("attributes").Key(shorten(name)); !known {
			errs = append(errs, field.Required(of, "is the partitionTypeAttribute of a device that consumes counters"))
		} else if value.StringValue == nil {
			errs = append(errs, field.Invalid(of, "", "must be a string: it is the partitionTypeAttribute"))
		}
	}
	if !partitions {
		return field.ErrorList{field.Invalid(at, shorten(name), "needs devices that consume counters")}
	}
	return errs
}

func counterSets(sets []resourceapi.CounterSet, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(sets), resourceapi.ResourceSliceMaxCounterSets)
	seen := make(map[string]bool)
	for i, set := range sets {
		errs = append(errs, uniqueLabel(set.Name, seen, path.Index(i).Child("name"))...)
		errs = append(errs, counters(set.Counters, path.Index(i).Child("counters"))...)
	}
	return errs
}

func counters(counters map[string]resourceapi.Counter, path *field.Path) field.ErrorList {
	if len(counters) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := tooMany(path, len(counters), resourceapi.ResourceSliceMaxCountersPerCounterSet)
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		errs = append(errs, label(name, path)...)
	}
	return errs
}
