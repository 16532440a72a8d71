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

// Attribute returns an attribute by its fully qualified name. If the device does not list that name and its
// domain is the driver's name, the bare name is looked up.
func (s *Shape) Attribute(name resourceapi.FullyQualifiedName) (Attribute, bool) {
	published, ok := s.Device.Attributes[resourceapi.QualifiedName(name)]
	if domain, id, found := strings.Cut(string(name), "/"); !ok && found && domain == s.Driver {
		published, ok = s.Device.Attributes[resourceapi.QualifiedName(id)]
	}
	if !ok {
		return Attribute{}, false
	}
	return AttributeOf(&published), true
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
