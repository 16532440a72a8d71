// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/devmgmt/expression"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Object returns the errors of a DevicePool, DeviceClass or DeviceClaim. Objects of other types
// have none.
func Object(object runtime.Object) field.ErrorList {
	switch object := object.(type) {
	case *v1alpha1.DevicePool:
		return Pool(object)
	case *v1alpha1.DeviceClass:
		return Class(object)
	case *v1alpha1.DeviceClaim:
		return Claim(object)
	}
	return nil
}

// Class returns the errors of a class.
func Class(class *v1alpha1.DeviceClass) field.ErrorList {
	spec := field.NewPath("spec")
	errs := objectName(class)
	errs = append(errs, subdomain(class.Spec.Driver, spec.Child("driver"))...)
	errs = append(errs, required(class.Spec.DeviceType, spec.Child("deviceType"))...)
	errs = append(errs, constraints(class.Spec.Constraints, spec.Child("constraints"))...)
	for i, config := range class.Spec.Configs {
		at := spec.Child("configs").Index(i)
		errs = append(errs, reference(config.APIVersion, config.Kind, config.Name, at)...)
		errs = append(errs, required(config.Namespace, at.Child("namespace"))...)
	}
	return errs
}

func objectName(object metav1.Object) field.ErrorList {
	return subdomain(object.GetName(), field.NewPath("metadata", "name"))
}

func subdomain(name string, path *field.Path) field.ErrorList {
	if errs := required(name, path); len(errs) > 0 {
		return errs
	}
	// the check's own message contains the whole value, however long it is
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return field.ErrorList{field.TooLong(path, nil, validation.DNS1123SubdomainMaxLength)}
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// names checks that names are not empty and unique.
type names map[string]bool

func (n names) check(name string, path *field.Path) field.ErrorList {
	if name != "" && n[name] {
		return field.ErrorList{field.Duplicate(path, shorten(name))}
	}
	n[name] = true
	return required(name, path)
}

// shorten shortens very long values in messages.
func shorten(text string) string {
	const limit = 80
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

func notNegative(amount resource.Quantity, path *field.Path) field.ErrorList {
	if amount.Sign() < 0 {
		return field.ErrorList{field.Invalid(path, amount.String(), "must not be negative")}
	}
	return nil
}

// amounts validates names and values of requests or limits.
func amounts(list map[string]resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := path.Key(shorten(name))
		errs = append(errs, required(name, at)...)
		errs = append(errs, notNegative(list[name], at)...)
	}
	return errs
}

func constraints(text *string, path *field.Path) field.ErrorList {
	if text == nil {
		return nil
	}
	if *text == "" {
		return field.ErrorList{field.Required(path, "leave it out if every device will do")}
	}
	if err := expression.Check(*text); err != nil {
		return field.ErrorList{field.Invalid(path, shorten(*text), err.Error())}
	}
	return nil
}

// reference validates the fields that all references to objects have.
func reference(apiVersion, kind, name string, path *field.Path) field.ErrorList {
	errs := required(apiVersion, path.Child("apiVersion"))
	if _, err := schema.ParseGroupVersion(apiVersion); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), shorten(apiVersion), "must be a version, or group/version"))
	}
	errs = append(errs, required(kind, path.Child("kind"))...)
	return append(errs, required(name, path.Child("name"))...)
}
