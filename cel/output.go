// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// outputCheck returns what is wrong with the type of an expression, empty if it is usable.
type outputCheck func(*sharedEnv, *cel.Type) string

// yieldsBool accepts the types of selectors: a boolean, or an attribute, which may be one at run time.
func yieldsBool(w *sharedEnv, t *cel.Type) string {
	if t.IsExactType(cel.BoolType) || t.IsExactType(w.attribute.CelType()) {
		return ""
	}
	return fmt.Sprintf("a selector must yield bool or an attribute, not %s", t)
}

// yieldsAttribute accepts the types of derived attributes: those that an attribute can hold.
func yieldsAttribute(_ *sharedEnv, t *cel.Type) string {
	element := t
	if t.TypeName() == "list" && len(t.Parameters()) == 1 {
		element = t.Parameters()[0]
	}
	for _, scalar := range []*cel.Type{
		cel.BoolType, cel.IntType, cel.StringType, apiservercel.SemverType, cel.AnyType, cel.DynType,
	} {
		if element.IsExactType(scalar) {
			return ""
		}
	}
	return fmt.Sprintf("a derived attribute must yield string, int, bool, semver or a list of one of them, not %s", t)
}

// toAttribute converts a result. A list has the type of its first element; an empty list counts as one of
// strings.
func toAttribute(result ref.Val) (*resourceapi.DeviceAttribute, error) {
	switch v := result.Value().(type) {
	case bool:
		return &resourceapi.DeviceAttribute{BoolValue: &v}, nil
	case int64:
		return &resourceapi.DeviceAttribute{IntValue: &v}, nil
	case string:
		return &resourceapi.DeviceAttribute{StringValue: &v}, nil
	case semver.Version:
		text := v.String()
		return &resourceapi.DeviceAttribute{VersionValue: &text}, nil
	}
	if list, ok := result.(traits.Lister); ok {
		return toListAttribute(list)
	}
	return nil, fmt.Errorf("must yield a scalar or a list, not a value of type %s", result.Type().TypeName())
}

func toListAttribute(list traits.Lister) (attribute *resourceapi.DeviceAttribute, err error) {
	attribute = &resourceapi.DeviceAttribute{}
	if list.Size() == types.IntZero {
		attribute.StringValues = []string{}
		return attribute, nil
	}
	switch first := list.Get(types.IntZero); first.Value().(type) {
	case bool:
		attribute.BoolValues, err = elements(list, itself[bool])
	case int64:
		attribute.IntValues, err = elements(list, itself[int64])
	case string:
		attribute.StringValues, err = elements(list, itself[string])
	case semver.Version:
		attribute.VersionValues, err = elements(list, semver.Version.String)
	default:
		err = fmt.Errorf("must yield a list of scalars, not of values of type %s", first.Type().TypeName())
	}
	if err != nil {
		return nil, err
	}
	return attribute, nil
}

func itself[T any](v T) T { return v }

// elements converts a list whose elements must all have one type.
func elements[V, T any](list traits.Lister, convert func(V) T) ([]T, error) {
	var converted []T
	for i := types.IntZero; i < list.Size().(types.Int); i++ {
		element := list.Get(i)
		value, ok := element.Value().(V)
		if !ok {
			return nil, fmt.Errorf("must yield a list of elements of one type, but element %d is of type %s and the first one of type %s",
				i, element.Type().TypeName(), list.Get(types.IntZero).Type().TypeName())
		}
		converted = append(converted, convert(value))
	}
	return converted, nil
}
