// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"cmp"
	"maps"
	"slices"
)

// Name is the fully qualified name of an attribute or capacity. Bare names in a
// device belong to the domain of its driver.
type Name struct {
	Domain, ID string
}

// String returns domain/id.
func (n Name) String() string { return n.Domain + "/" + n.ID }

func compareNames(a, b Name) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.ID, b.ID))
}

// Reads says which parts of a device an expression depends on. Two devices that agree in these parts have the
// same result. Whether a part exists counts as read, too.
type Reads struct {
	// Exact is false if the expression may depend on anything in the device, for example because it iterates
	// over all attributes. The other fields are then incomplete.
	Exact bool
	// Driver and Multiple are set if the expression reads device.driver and
	// device.allowMultipleAllocations.
	Driver, Multiple bool
	// Attributes and Capacities are sorted, without duplicates.
	Attributes, Capacities []Name
	// AnyAttribute and AnyCapacity are set if the expression depends on whether the device has any at all.
	AnyAttribute, AnyCapacity bool
	// AttributeDomains and CapacityDomains are domains for which the expression tests whether they contain
	// anything. They are sorted, without duplicates.
	AttributeDomains, CapacityDomains []string
}

// AppendProjection appends the projection of a device: equal bytes mean equal results. It is false for a device
// on which every evaluation fails.
func (p *Program) AppendProjection(to []byte, d *Device) ([]byte, bool) {
	if d.err != nil {
		return to, false
	}
	return p.projector.append(to, d), true
}

// readSet collects reads during the analysis of an expression.
type readSet struct {
	inexact, driver, multiple  bool
	anyAttribute, anyCapacity  bool
	attributes, capacities     map[Name]struct{}
	attributeDomain, capDomain map[string]struct{}
}

func newReadSet() *readSet {
	return &readSet{
		attributes: map[Name]struct{}{}, capacities: map[Name]struct{}{},
		attributeDomain: map[string]struct{}{}, capDomain: map[string]struct{}{},
	}
}

func (s *readSet) reads() Reads {
	return Reads{
		Exact:            !s.inexact,
		Driver:           s.driver,
		Multiple:         s.multiple,
		Attributes:       slices.SortedFunc(maps.Keys(s.attributes), compareNames),
		Capacities:       slices.SortedFunc(maps.Keys(s.capacities), compareNames),
		AnyAttribute:     s.anyAttribute,
		AnyCapacity:      s.anyCapacity,
		AttributeDomains: slices.Sorted(maps.Keys(s.attributeDomain)),
		CapacityDomains:  slices.Sorted(maps.Keys(s.capDomain)),
	}
}
