// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shape has what selectors and constraints read of devices, and attribute values that are cheap to
// compare.
package shape

import (
	"strings"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// Shape is what selectors and constraints read of a device: driver, attributes, capacities with their policies,
// and whether it may be allocated several times. It lives as long as the slice that published the device. It is
// safe for concurrent use.
type Shape struct {
	Driver string
	Device *resourceapi.Device // as published
	Attachment
}

// Attribute returns an attribute by its fully qualified name, see Published.
func (s *Shape) Attribute(name resourceapi.FullyQualifiedName) (Attribute, bool) {
	published, found := Published(s.Driver, s.Device.Attributes, name)
	if !found {
		return Attribute{}, false
	}
	return AttributeOf(&published), true
}

// Published returns one of the attributes or capacities of a driver's device. The device may publish it without
// a domain if the domain is the driver.
func Published[V any](driver string, all map[resourceapi.QualifiedName]V, name resourceapi.FullyQualifiedName) (V, bool) {
	value, found := all[resourceapi.QualifiedName(name)]
	if domain, id, qualified := strings.Cut(string(name), "/"); !found && qualified && domain == driver {
		value, found = all[resourceapi.QualifiedName(id)]
	}
	return value, found
}

// Attachment lets one user cache a value with an immutable object.
type Attachment struct{ attached atomic.Pointer[any] }

// Attach returns the cached value, which the first call builds. Concurrent first calls may each build; one
// result is kept as long as the object lives. There is one value only, that of the allocator.
func (a *Attachment) Attach(build func() any) any {
	if kept := a.attached.Load(); kept != nil {
		return *kept
	}
	built := build()
	if !a.attached.CompareAndSwap(nil, &built) {
		return *a.attached.Load()
	}
	return built
}
