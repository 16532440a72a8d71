// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
)

// Attribute is a device attribute, prepared for comparison. The API sets exactly one field of an attribute; if
// several are set, the order below decides.
type Attribute struct {
	// Scalar is the first that is set of string, int, bool and version. HasScalar is false if none is set: the
	// attribute is a list, or has a type of a later API.
	Scalar    Value
	HasScalar bool
	// Set is the first non-empty list of int, bool, string and version, without duplicates. Otherwise it is the
	// first scalar that is set of int, bool, string and version. Nil if the attribute has no known type. It
	// must not be modified.
	Set []Value
	// Unknown is set if the value is not known yet: see UnknownPrefix.
	Unknown bool
}

// UnknownPrefix begins the string of an attribute whose value is not known yet, as on a node that does not
// exist. Devices with the same string will agree in the attribute, so that matchAttribute holds for them.
// Selectors that read the value, and distinctAttribute, do not hold.
const UnknownPrefix = "dray-project.github.io/unknown/"

// Unknown reports whether the value of an attribute is not known yet.
func Unknown(a *resourceapi.DeviceAttribute) bool {
	return a.StringValue != nil && strings.HasPrefix(*a.StringValue, UnknownPrefix)
}

// AttributeOf prepares an attribute.
func AttributeOf(a *resourceapi.DeviceAttribute) Attribute {
	prepared := Attribute{Set: attributeSet(a)}
	switch {
	case a.StringValue != nil:
		prepared.Scalar = valueOf(*a.StringValue)
	case a.IntValue != nil:
		prepared.Scalar = valueOf(*a.IntValue)
	case a.BoolValue != nil:
		prepared.Scalar = valueOf(*a.BoolValue)
	case a.VersionValue != nil:
		prepared.Scalar = versionValue(*a.VersionValue)
	}
	prepared.Unknown, prepared.HasScalar = Unknown(a), prepared.Scalar != Value{}
	return prepared
}

func attributeSet(a *resourceapi.DeviceAttribute) []Value {
	switch {
	case len(a.IntValues) > 0:
		return values(a.IntValues, valueOf)
	case len(a.BoolValues) > 0:
		return values(a.BoolValues, valueOf)
	case len(a.StringValues) > 0:
		return values(a.StringValues, valueOf)
	case len(a.VersionValues) > 0:
		return values(a.VersionValues, versionValue)
	case a.IntValue != nil:
		return []Value{valueOf(*a.IntValue)}
	case a.BoolValue != nil:
		return []Value{valueOf(*a.BoolValue)}
	case a.StringValue != nil:
		return []Value{valueOf(*a.StringValue)}
	case a.VersionValue != nil:
		return []Value{versionValue(*a.VersionValue)}
	}
	return nil
}

// values converts a list, in order, without duplicates. Lists are short.
func values[T any](list []T, value func(T) Value) []Value {
	set := make([]Value, 0, len(list))
	for _, element := range list {
		if v := value(element); !slices.Contains(set, v) {
			set = append(set, v)
		}
	}
	return set
}

// Value is one typed attribute value: an integer, boolean, string or version. Values are interned, so that two
// are equal (==) exactly if they have the same type and content. Versions are compared as strings: semver 2.0.0
// has only one way to write each. The zero Value means none.
type Value struct{ handle unique.Handle[any] }

// version is the value of a version attribute. Having its own type, the version "1.0.0" is not equal to the
// string "1.0.0".
type version string

func valueOf[T any](v T) Value { return Value{handle: unique.Make[any](v)} }

func versionValue(v string) Value { return valueOf(version(v)) }

// String returns the value without quotes and type. It is empty for the zero Value.
func (v Value) String() string {
	if v == (Value{}) {
		return ""
	}
	return fmt.Sprint(v.handle.Value())
}

// AppendKey appends bytes that are equal for equal values only.
func (v Value) AppendKey(to []byte) []byte {
	if v == (Value{}) {
		return append(to, 0)
	}
	text := v.String()
	return append(fmt.Appendf(to, "%T %d ", v.handle.Value(), len(text)), text...)
}
