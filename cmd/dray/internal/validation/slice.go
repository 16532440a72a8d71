// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func slice(spec *resourceapi.ResourceSliceSpec, path *field.Path) field.ErrorList {
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
	if name := spec.PartitionTypeAttribute; name != nil {
		errs = append(errs, fullyQualifiedName(string(*name), path.Child("partitionTypeAttribute"))...)
	}
	errs = append(errs, counterSets(spec.SharedCounters, path.Child("sharedCounters"))...)
	return append(errs, devices(spec, path.Child("devices"))...)
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
	if set != 1 {
		return field.ErrorList{field.Invalid(path, set, "must set exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection")}
	}
	return reach(spec.NodeName, spec.NodeSelector, spec.AllNodes, path)
}

func reach(nodeName *string, selector *corev1.NodeSelector, allNodes *bool, path *field.Path) field.ErrorList {
	switch {
	case nodeName != nil:
		return subdomain(*nodeName, path.Child("nodeName"))
	case selector != nil && len(selector.NodeSelectorTerms) != 1:
		return field.ErrorList{field.Invalid(path.Child("nodeSelector", "nodeSelectorTerms"), len(selector.NodeSelectorTerms), "must have exactly one term")}
	case !ptr.Deref(allNodes, true):
		return field.ErrorList{field.Invalid(path.Child("allNodes"), false, "must be true or left out")}
	}
	return nil
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
		value := counters[name].Value
		errs = append(errs, notNegative(value, path.Key(shorten(name)))...)
	}
	return errs
}
