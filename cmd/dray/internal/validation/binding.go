// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// binding validates binding conditions. A condition must not be both a binding condition and a
// failure condition.
func binding(successes, failures []string, path *field.Path) field.ErrorList {
	success, failure := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	errs := conditions(successes, resourceapi.BindingConditionsMaxSize, success)
	errs = append(errs, conditions(failures, resourceapi.BindingFailureConditionsMaxSize, failure)...)
	switch {
	case len(successes) == 0 && len(failures) > 0:
		errs = append(errs, field.Required(success, "must be set together with bindingFailureConditions"))
	case len(failures) == 0 && len(successes) > 0:
		errs = append(errs, field.Required(failure, "must be set together with bindingConditions"))
	}
	for i, condition := range failures {
		if slices.Contains(successes, condition) {
			errs = append(errs, field.Invalid(failure.Index(i), shorten(condition), "must not be one of bindingConditions"))
		}
	}
	return errs
}

func conditions(conditions []string, most int, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(conditions), most)
	for i, condition := range conditions {
		errs = append(errs, labelKey(condition, path.Index(i))...)
	}
	return append(errs, repeated(conditions, path)...)
}

var nodeOperations = []resourceapi.SkipNodeOperation{
	resourceapi.SkipNodeOperationNodePrepareResources, resourceapi.SkipNodeOperationNodeUnprepareResources, resourceapi.SkipNodeOperationAll,
}

// skipped validates the calls on the node that are skipped. A device that is prepared must be
// unprepared, so only prepare may be skipped alone.
func skipped(operations []resourceapi.SkipNodeOperation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, operation := range operations {
		if !slices.Contains(nodeOperations, operation) {
			errs = append(errs, field.NotSupported(path.Index(i), resourceapi.SkipNodeOperation(shorten(string(operation))), nodeOperations))
		}
	}
	if slices.Contains(operations, resourceapi.SkipNodeOperationNodePrepareResources) &&
		!slices.Contains(operations, resourceapi.SkipNodeOperationNodeUnprepareResources) &&
		!slices.Contains(operations, resourceapi.SkipNodeOperationAll) {
		errs = append(errs, field.Invalid(path, resourceapi.SkipNodeOperationNodePrepareResources, "needs NodeUnprepareResources or *, too"))
	}
	return append(errs, repeated(operations, path)...)
}

// repeated returns an error for each duplicate in a set.
func repeated[T ~string](entries []T, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, entry := range entries {
		if slices.Contains(entries[:i], entry) {
			errs = append(errs, field.Duplicate(path.Index(i), shorten(string(entry))))
		}
	}
	return errs
}
