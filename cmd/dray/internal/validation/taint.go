// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	effects = []resourceapi.DeviceTaintEffect{
		resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute,
	}
	operators = []resourceapi.DeviceTolerationOperator{resourceapi.DeviceTolerationOpEqual, resourceapi.DeviceTolerationOpExists}
)

func taint(taint resourceapi.DeviceTaint, path *field.Path) field.ErrorList {
	errs := labelKey(taint.Key, path.Child("key"))
	errs = append(errs, labelValue(taint.Value, path.Child("value"))...)
	if taint.Effect == "" {
		return append(errs, field.Required(path.Child("effect"), ""))
	}
	return append(errs, effect(taint.Effect, path.Child("effect"))...)
}

// taintSelector validates the names in the selector of a DeviceTaintRule.
func taintSelector(selector *resourceapi.DeviceTaintSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if selector == nil {
		return nil
	}
	if selector.Driver != nil {
		errs = append(errs, driverName(*selector.Driver, path.Child("driver"))...)
	}
	if selector.Pool != nil {
		errs = append(errs, poolName(*selector.Pool, path.Child("pool"))...)
	}
	if selector.Device != nil {
		errs = append(errs, label(*selector.Device, path.Child("device"))...)
	}
	return errs
}

func toleration(t resourceapi.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, labelKey(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case resourceapi.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), shorten(t.Value), "must be empty when operator is Exists"))
		}
	case resourceapi.DeviceTolerationOpEqual:
		errs = append(errs, labelValue(t.Value, path.Child("value"))...)
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), resourceapi.DeviceTolerationOperator(shorten(string(t.Operator))), operators))
	}
	if t.Effect != "" {
		errs = append(errs, effect(t.Effect, path.Child("effect"))...)
	}
	return errs
}

func effect(effect resourceapi.DeviceTaintEffect, path *field.Path) field.ErrorList {
	for _, known := range effects {
		if effect == known {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, resourceapi.DeviceTaintEffect(shorten(string(effect))), effects)}
}

func labelKey(key string, path *field.Path) field.ErrorList {
	return format(key, path, content.IsLabelKey)
}

func labelValue(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return nil
	}
	return format(value, path, content.IsLabelValue)
}
