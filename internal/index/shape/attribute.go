package shape

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Attribute is a device attribute ready to be compared. The API sets exactly one
// of an attribute's fields; where several are set, the order given below decides.
type Attribute struct {
	// Scalar is the first that is set of string, int, bool and version.
	// HasScalar is false if none is: a list, or a type from a later API.
	Scalar    Value
	HasScalar bool
	// Set is the first that is not empty of the int, bool, string and version
	// lists, without repeats, else the first that is set of int, bool, string and
	// version. Nil if the attribute has no known type. It must not be modified.
	Set []Value
	// Unknown is set if the value stands for one that is not known yet: see UnknownPrefix.
	Unknown bool
}

// UnknownPrefix begins the string of an attribute whose value is not known yet, as of a node that does
// not exist. Devices with the same string will agree in the attribute, and matchAttribute holds for them.
// Nothing else that needs the value holds: no selector that reads it, no distinctAttribute.
const UnknownPrefix = "dray-project.github.io/unknown/"

// Unknown reports whether the value of an attribute is not known yet.
func Unknown(a *resourceapi.DeviceAttribute) bool {
	return a.StringValue != nil && strings.HasPrefix(*a.StringValue, UnknownPrefix)
}

// AttributeOf prepares an attribute.
func AttributeOf(a *resourceapi.DeviceAttribute) Attribute {
	var prepared Attribute
	switch {
	case a.StringValue != nil:
		prepared.setScalar(stringValue(*a.StringValue))
	case a.IntValue != nil:
		prepared.setScalar(intValue(*a.IntValue))
	case a.BoolValue != nil:
		prepared.setScalar(boolValue(*a.BoolValue))
	case a.VersionValue != nil:
		prepared.setScalar(versionValue(*a.VersionValue))
	}
	prepared.Set, prepared.Unknown = attributeSet(a), Unknown(a)
	return prepared
}

func (a *Attribute) setScalar(v Value) { a.Scalar, a.HasScalar = v, true }

func attributeSet(a *resourceapi.DeviceAttribute) []Value {
	switch {
	case len(a.IntValues) > 0:
		return values(a.IntValues, intValue)
	case len(a.BoolValues) > 0:
		return values(a.BoolValues, boolValue)
	case len(a.StringValues) > 0:
		return values(a.StringValues, stringValue)
	case len(a.VersionValues) > 0:
		return values(a.VersionValues, versionValue)
	case a.IntValue != nil:
		return []Value{intValue(*a.IntValue)}
	case a.BoolValue != nil:
		return []Value{boolValue(*a.BoolValue)}
	case a.StringValue != nil:
		return []Value{stringValue(*a.StringValue)}
	case a.VersionValue != nil:
		return []Value{versionValue(*a.VersionValue)}
	}
	return nil
}

// values interns a list, in order, each value once. Lists are short.
func values[T any](list []T, value func(T) Value) []Value {
	set := make([]Value, 0, len(list))
	for _, element := range list {
		if v := value(element); !slices.Contains(set, v) {
			set = append(set, v)
		}
	}
	return set
}
