// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A projection is the part of a device that an expression reads, encoded so that equal encodings mean equal
// results. The encoding distinguishes a missing part from all present ones.

// projector appends projections of devices for the reads of one program.
type projector struct {
	reads      Reads
	attributes []lookup
	capacities []lookup
}

// lookup is a name with the keys that it may have in the maps of a device.
type lookup struct {
	Name
	qualified, bare resourceapi.QualifiedName
	// possible and barePossible are false if no key of that form can have the name.
	possible, barePossible bool
}

func newProjector(reads Reads) projector {
	return projector{reads: reads, attributes: lookups(reads.Attributes), capacities: lookups(reads.Capacities)}
}

func lookups(names []Name) []lookup {
	var all []lookup
	for _, name := range names {
		all = append(all, lookup{
			Name:         name,
			qualified:    resourceapi.QualifiedName(name.String()),
			bare:         resourceapi.QualifiedName(name.ID),
			possible:     !strings.Contains(name.Domain, "/"),
			barePossible: !strings.Contains(name.ID, "/"),
		})
	}
	return all
}

// find looks up a name as an expression does.
func find[V any](l *lookup, driver string, m map[resourceapi.QualifiedName]V) (V, bool) {
	if l.possible {
		if value, found := m[l.qualified]; found {
			return value, true
		}
	}
	if l.barePossible && l.Domain == driver {
		value, found := m[l.bare]
		return value, found
	}
	var none V
	return none, false
}

func (p *projector) append(to []byte, d *Device) []byte {
	if !p.reads.Exact {
		digest := d.digest()
		return append(to, digest[:]...)
	}
	if p.reads.Driver {
		to = appendString(to, d.driver)
	}
	if p.reads.Multiple {
		to = appendBool(to, d.multiple())
	}
	if p.reads.AnyAttribute {
		to = appendBool(to, len(d.object.Attributes) > 0)
	}
	if p.reads.AnyCapacity {
		to = appendBool(to, len(d.object.Capacity) > 0)
	}
	for i := range p.attributes {
		attribute, found := find(&p.attributes[i], d.driver, d.object.Attributes)
		if to = appendBool(to, found); found {
			to = appendAttribute(to, &attribute)
		}
	}
	for i := range p.capacities {
		capacity, found := find(&p.capacities[i], d.driver, d.object.Capacity)
		if to = appendBool(to, found); found {
			to = appendQuantity(to, capacity.Value)
		}
	}
	for _, domain := range p.reads.AttributeDomains {
		to = appendBool(to, hasDomain(domain, d.driver, d.object.Attributes))
	}
	for _, domain := range p.reads.CapacityDomains {
		to = appendBool(to, hasDomain(domain, d.driver, d.object.Capacity))
	}
	return to
}

func hasDomain[V any](domain, driver string, m map[resourceapi.QualifiedName]V) bool {
	for key := range m {
		prefix, _, qualified := strings.Cut(string(key), "/")
		if !qualified {
			prefix = driver
		}
		if prefix == domain {
			return true
		}
	}
	return false
}

// makeDigest hashes the whole device. Devices can be large, so only a digest is kept.
func (d *Device) makeDigest() [sha256.Size]byte {
	text := appendString(nil, d.driver)
	text = appendBool(text, d.multiple())
	names := locate(d.driver, d.object.Attributes)
	text = binary.AppendUvarint(text, uint64(len(names)))
	for _, name := range names {
		attribute := d.object.Attributes[name.key]
		text = appendString(appendString(text, name.Domain), name.ID)
		text = appendAttribute(text, &attribute)
	}
	for _, name := range locate(d.driver, d.object.Capacity) {
		text = appendString(appendString(text, name.Domain), name.ID)
		text = appendQuantity(text, d.object.Capacity[name.key].Value)
	}
	return sha256.Sum256(text)
}

func appendString(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

func appendBool(to []byte, b bool) []byte {
	if b {
		return append(to, 1)
	}
	return append(to, 0)
}

// appendAttribute appends the value of an attribute, with its type.
func appendAttribute(to []byte, a *resourceapi.DeviceAttribute) []byte {
	kind := kindOf(a)
	to = append(to, byte(kind))
	switch kind {
	case intsKind:
		return appendList(to, a.IntValues, binary.AppendVarint)
	case boolsKind:
		return appendList(to, a.BoolValues, appendBool)
	case stringsKind:
		return appendList(to, a.StringValues, appendString)
	case versionsKind:
		return appendList(to, a.VersionValues, appendString)
	case intKind:
		return binary.AppendVarint(to, *a.IntValue)
	case boolKind:
		return appendBool(to, *a.BoolValue)
	case stringKind:
		return appendString(to, *a.StringValue)
	case versionKind:
		return appendString(to, *a.VersionValue)
	}
	return to
}

func appendList[E any](to []byte, list []E, appendOne func([]byte, E) []byte) []byte {
	to = binary.AppendUvarint(to, uint64(len(list)))
	for _, element := range list {
		to = appendOne(to, element)
	}
	return to
}

// appendQuantity distinguishes equal amounts that are represented differently: 1 and
// 1000m are equal, but only the first one is an integer to CEL.
func appendQuantity(to []byte, q resource.Quantity) []byte {
	to = appendString(to, string(q.Format))
	if integer, ok := q.AsInt64(); ok {
		return binary.AppendVarint(append(to, 'i'), integer)
	}
	// DeepCopy equals its original unless it contains a pointer to an arbitrary-precision number.
	to = appendBool(append(to, 'd'), q.DeepCopy() == q)
	to = appendString(to, q.String())
	number := q.AsDec() // AsDec modifies q, which is a copy
	to = binary.AppendVarint(to, int64(number.Scale()))
	to = appendBool(to, number.Sign() < 0)
	return appendString(to, string(number.UnscaledBig().Bytes()))
}
