// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// configuration validates the configuration for a driver. Opaque parameters are the only kind so
// far.
func configuration(config resourceapi.DeviceConfiguration, path *field.Path) field.ErrorList {
	if config.Opaque == nil {
		return field.ErrorList{field.Required(path.Child("opaque"), "")}
	}
	at := path.Child("opaque")
	errs := driverName(config.Opaque.Driver, at.Child("driver"))
	return append(errs, parameters(config.Opaque.Parameters, at.Child("parameters"))...)
}

// parameters must be a JSON object.
func parameters(parameters runtime.RawExtension, path *field.Path) field.ErrorList {
	if len(parameters.Raw) > resourceapi.OpaqueParametersMaxLength {
		return field.ErrorList{field.TooLong(path, nil, resourceapi.OpaqueParametersMaxLength)}
	}
	if len(parameters.Raw) == 0 || string(parameters.Raw) == "null" {
		return field.ErrorList{field.Required(path, "")}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(parameters.Raw, &object); err != nil {
		return field.ErrorList{field.Invalid(path, shorten(string(parameters.Raw)), "must be a JSON object")}
	}
	return nil
}

func classConfigs(configs []resourceapi.DeviceClassConfiguration, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(configs), resourceapi.DeviceConfigMaxSize)
	for i, config := range configs {
		errs = append(errs, configuration(config.DeviceConfiguration, path.Index(i))...)
	}
	return errs
}

func claimConfigs(configs []resourceapi.DeviceClaimConfiguration, known map[string]bool, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(configs), resourceapi.DeviceConfigMaxSize)
	for i, config := range configs {
		errs = append(errs, references(config.Requests, known, path.Index(i).Child("requests"))...)
		errs = append(errs, configuration(config.DeviceConfiguration, path.Index(i))...)
	}
	return errs
}
