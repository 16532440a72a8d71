// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Attribute is a fact about a device, or about all devices of a pool: a name and one value. Of
// the value fields exactly one is set, and which one decides the type.
type Attribute struct {
	// Name is how expressions and matchAttributes refer to the attribute.
	// +required
	Name string `json:"name"`

	// StringValue is a text.
	StringValue *string `json:"stringValue,omitempty"`
	// IntValue is a whole number.
	IntValue *int `json:"intValue,omitempty"`
	// QuantityValue is an amount, such as 40Gi. It says how much a device has, not that somebody
	// may take some of it: see [Device].Resources for that.
	QuantityValue *resource.Quantity `json:"quantityValue,omitempty"`
	// SemVerValue is a semantic version, such as 1.2.3.
	SemVerValue *SemVer `json:"semVerValue,omitempty"`
}

// SemVer is a semantic version. The prototype keeps it as text, and versions are equal if the
// texts are.
type SemVer string

// Equal reports whether both attributes have the same name, type and value.
func (a Attribute) Equal(b Attribute) bool { return a.Name == b.Name && a.EqualValue(b) }

// EqualValue reports whether both attributes have the same type and value, whatever their names.
// Quantities are compared as numbers: 1Gi equals 1024Mi. Values of different types are never
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
