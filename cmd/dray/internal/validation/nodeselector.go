// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func nodeSelector(selector *corev1.NodeSelector, path *field.Path) field.ErrorList {
	path = path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one term")}
	}
	var errs field.ErrorList
	for i, term := range selector.NodeSelectorTerms {
		for j := range term.MatchExpressions {
			errs = append(errs, matchExpression(&term.MatchExpressions[j], path.Index(i).Child("matchExpressions").Index(j))...)
		}
		for j := range term.MatchFields {
			errs = append(errs, matchField(&term.MatchFields[j], path.Index(i).Child("matchFields").Index(j))...)
		}
	}
	return errs
}

// matchExpression does not look at whether the values of Gt and Lt are numbers. To the API server they are labels.
func matchExpression(required *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	errs := labelKey(required.Key, path.Child("key"))
	least, most := 0, len(required.Values)
	switch required.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		least = 1
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		most = 0
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		least, most = 1, 1
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), shorten(string(required.Operator)), "must be In, NotIn, Exists, DoesNotExist, Gt or Lt"))
	}
	errs = append(errs, numberOfValues(required, least, most, path)...)
	for i, value := range required.Values {
		errs = append(errs, labelValue(value, path.Child("values").Index(i))...)
	}
	return errs
}

func matchField(required *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	if required.Operator != corev1.NodeSelectorOpIn && required.Operator != corev1.NodeSelectorOpNotIn {
		return field.ErrorList{field.Invalid(path.Child("operator"), shorten(string(required.Operator)), "must be In or NotIn")}
	}
	if required.Key != metav1.ObjectNameField {
		return field.ErrorList{field.Invalid(path.Child("key"), shorten(required.Key), "must be "+metav1.ObjectNameField)}
	}
	errs := numberOfValues(required, 1, 1, path)
	for i, value := range required.Values {
		errs = append(errs, subdomain(value, path.Child("values").Index(i))...)
	}
	return errs
}

func numberOfValues(required *corev1.NodeSelectorRequirement, least, most int, path *field.Path) field.ErrorList {
	switch n := len(required.Values); {
	case n < least:
		return field.ErrorList{field.Required(path.Child("values"), "operator "+string(required.Operator)+" needs a value")}
	case n > most && most == 0:
		return field.ErrorList{field.Forbidden(path.Child("values"), "operator "+string(required.Operator)+" has no values")}
	case n > most:
		return field.ErrorList{field.Invalid(path.Child("values"), n, "must be one value")}
	}
	return nil
}
