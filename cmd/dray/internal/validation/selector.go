// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *Checker) selectors(selectors []resourceapi.DeviceSelector, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(selectors), resourceapi.DeviceSelectorsMaxSize)
	for i, selector := range selectors {
		at := path.Index(i).Child("cel")
		if selector.CEL == nil {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		errs = append(errs, expression(selector.CEL.Expression, c.expressions.CheckSelector, at.Child("expression"))...)
	}
	return errs
}

// derived validates the attributes that a request defines, by whose names constraints refer to it.
func (c *Checker) derived(attributes []resourceapi.DeviceDerivedAttribute, compared map[comparedAttribute]bool, path *field.Path, names ...string) field.ErrorList {
	errs := tooMany(path, len(attributes), resourceapi.DeviceDerivedAttributesMaxSize)
	seen := make(map[resourceapi.FullyQualifiedName]bool)
	for i, attribute := range attributes {
		at := path.Index(i)
		errs = append(errs, fullyQualifiedName(string(attribute.Name), at.Child("name"))...)
		if attribute.Name != "" && seen[attribute.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), shorten(string(attribute.Name))))
		}
		seen[attribute.Name] = true
		if attribute.Name != "" && !slices.ContainsFunc(append(names, ""), func(name string) bool { return compared[comparedAttribute{name, attribute.Name}] }) {
			errs = append(errs, field.Invalid(at.Child("name"), shorten(string(attribute.Name)), "no constraint about this request compares it"))
		}
		errs = append(errs, expression(attribute.Expression, c.expressions.CheckDerived, at.Child("expression"))...)
	}
	return errs
}

func expression(text string, compile func(string) error, path *field.Path) field.ErrorList {
	switch {
	case text == "":
		return field.ErrorList{field.Required(path, "")}
	case len(text) > resourceapi.CELSelectorExpressionMaxLength:
		return field.ErrorList{field.TooLong(path, nil, resourceapi.CELSelectorExpressionMaxLength)}
	}
	if err := compile(text); err != nil {
		return field.ErrorList{field.Invalid(path, shorten(text), err.Error())}
	}
	return nil
}
