// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func attributes(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	total := 0
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		at := path.Key(shorten(string(name)))
		errs = append(errs, qualifiedName(string(name), at)...)
		errs = append(errs, attribute(&value, at)...)
		total += max(1, len(value.IntValues)+len(value.BoolValues)+len(value.StringValues)+len(value.VersionValues))
	}
	return append(errs, tooMany(path, total, resourceapi.ResourceSliceMaxAttributeValuesPerDevice)...)
}

func attribute(value *resourceapi.DeviceAttribute, path *field.Path) field.ErrorList {
	set := 0
	for _, isSet := range []bool{
		value.IntValue != nil, value.BoolValue != nil, value.StringValue != nil, value.VersionValue != nil,
		len(value.IntValues) > 0, len(value.BoolValues) > 0, len(value.StringValues) > 0, len(value.VersionValues) > 0,
	} {
		if isSet {
			set++
		}
	}
	if set != 1 {
		return field.ErrorList{field.Invalid(path, set, "must have exactly one value: int, bool, string, version, or a list of them that is not empty")}
	}
	var errs field.ErrorList
	if value.StringValue != nil {
		errs = append(errs, valueLength(*value.StringValue, path.Child("string"))...)
	}
	for i, each := range value.StringValues {
		errs = append(errs, valueLength(each, path.Child("strings").Index(i))...)
	}
	if value.VersionValue != nil {
		errs = append(errs, version(*value.VersionValue, path.Child("version"))...)
	}
	for i, each := range value.VersionValues {
		errs = append(errs, version(each, path.Child("versions").Index(i))...)
	}
	return errs
}

func valueLength(text string, path *field.Path) field.ErrorList {
	if len(text) <= resourceapi.DeviceAttributeMaxValueLength {
		return nil
	}
	return field.ErrorList{field.TooLong(path, nil, resourceapi.DeviceAttributeMaxValueLength)}
}

func version(text string, path *field.Path) field.ErrorList {
	if errs := valueLength(text, path); len(errs) > 0 {
		return errs
	}
	if _, err := semver.Parse(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, "must be a semantic version as defined by semver.org: "+err.Error())}
	}
	return nil
}
