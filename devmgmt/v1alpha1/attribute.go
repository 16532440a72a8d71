// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Attribute is a property of a device, or of all devices of a pool: a name and one value. Exactly
// one of the value fields is set, and determines the type.
type Attribute struct {
	// Name is the attribute's name in expressions and matchAttributes.
	// +required
	Name string `json:"name"`

	// StringValue is a string.
	StringValue *string `json:"stringValue,omitempty"`
	// IntValue is a whole number.
	IntValue *int `json:"intValue,omitempty"`
	// QuantityValue is a quantity, such as 40Gi. Claims cannot consume it: see [Device].Resources
	// for that.
	QuantityValue *resource.Quantity `json:"quantityValue,omitempty"`
	// SemVerValue is a semantic version, such as 1.2.3.
	SemVerValue *SemVer `json:"semVerValue,omitempty"`
}

// SemVer is a semantic version. The prototype stores it as a string. Versions are equal if the
// strings are.
type SemVer string

// Equal reports whether both attributes have the same name, type and value.
func (a Attribute) Equal(b Attribute) bool { return a.Name == b.Name && a.EqualValue(b) }

// EqualValue reports whether both attributes have the same type and value, regardless of their
// names. Quantities are compared as numbers: 1Gi equals 1024Mi. Values of different types are never
// equal, not even the number 1 and the quantity 1.
func (a Attribute) EqualValue(b Attribute) bool {
	return equal(a.StringValue, b.StringValue) &&
		equal(a.IntValue, b.IntValue) &&
		equal(a.SemVerValue, b.SemVerValue) &&
		equalQuantity(a.QuantityValue, b.QuantityValue)
}

func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalQuantity(a, b *resource.Quantity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(*b) == 0
}
