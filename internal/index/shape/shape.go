// Package shape interns devices by content: devices that selectors and constraints cannot
// tell apart share one Shape, and equal attribute values are one Value.
package shape

import (
	"strings"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// Shape is what selectors and constraints can see of a device: driver, attributes,
// capacity with its policies, and whether it may be allocated several times.
// Devices which agree in all of that share one Shape in all snapshots of a builder,
// as long as the builder holds several such devices; so what is computed for a Shape
// holds for all its devices. The Shape of a device which is like no other ends with its
// slice. A Shape is safe for concurrent use.
type Shape struct {
	Driver string
	// Device has the attributes, the capacity and allowMultipleAllocations that
	// the devices of this shape share, and nothing else.
	Device *resourceapi.Device

	// prepared remembers the attributes that were asked for. Few of a device's
	// attributes ever are, so preparing all of them would waste memory.
	prepared atomic.Pointer[preparedAttribute]

	Attachment
}

// preparedAttribute is an immutable list, newest first, at most one element per
// attribute of the device.
type preparedAttribute struct {
	name      resourceapi.QualifiedName
	attribute Attribute
	next      *preparedAttribute
}

func newShape(driver string, device *resourceapi.Device) *Shape {
	return &Shape{Driver: driver, Device: &resourceapi.Device{
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
	}}
}

// Attribute returns an attribute by its fully qualified name. If the devices do not
// list it under that name and its domain is the driver's name, it is looked up by
// the bare name.
func (s *Shape) Attribute(name resourceapi.FullyQualifiedName) (Attribute, bool) {
	if attribute, ok := s.attribute(resourceapi.QualifiedName(name)); ok {
		return attribute, true
	}
	domain, id, found := strings.Cut(string(name), "/")
	if !found || domain != s.Driver {
		return Attribute{}, false
	}
	return s.attribute(resourceapi.QualifiedName(id))
}

func (s *Shape) attribute(name resourceapi.QualifiedName) (Attribute, bool) {
	head := s.prepared.Load()
	for p := head; p != nil; p = p.next {
		if p.name == name {
			return p.attribute, true
		}
	}
	published, ok := s.Device.Attributes[name]
	if !ok {
		return Attribute{}, false
	}
	attribute := AttributeOf(&published)
	// Whoever loses a race prepares its attribute again next time.
	s.prepared.CompareAndSwap(head, &preparedAttribute{name: name, attribute: attribute, next: head})
	return attribute, true
}

// Attachment is room for what one user keeps with an immutable object.
type Attachment struct{ attached atomic.Pointer[any] }

// Attach returns what one user keeps with the object, for as long as the object lives:
// the result of the first call's build. Concurrent first calls may each build, one
// result is kept. There is room for one user, which is the allocator.
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
