// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fieldworld

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/fieldchange"
	"github.com/dray-project/dray/internal/reads"
)

// Side is one of two nodes, or one of two forms of a node, that differ in a field.
type Side struct {
	Node   *corev1.Node
	Slices []*resourceapi.ResourceSlice
	Class  *resourceapi.DeviceClass
	// InUse is set if something is in use: Used. The node declares no feature then.
	InUse bool
	// Explains is set if answers say why there is nothing.
	Explains bool
	named    string
}

func sideOf(name string, inUse bool) *Side {
	s := &Side{Node: Node(name), Slices: Slices(name), Class: Class(), InUse: inUse, named: name}
	if inUse {
		s.Node.Status.DeclaredFeatures = s.Node.Status.DeclaredFeatures[:1]
	}
	return s
}

// Classes are all that there are for questions about the side.
func (s *Side) Classes() []*resourceapi.DeviceClass { return append(OtherClasses(), s.Class) }

// change is two worlds and claims that differ in a field, which the second one has changed.
type change struct {
	name string
	row  *reads.Row
	// make returns the second world, or nil, and what is asked about it. About the first one the same is asked, but for claims.
	changed func() (*Side, *resourceapi.ResourceClaim)
	// claim is what is asked about the first one if claims differ, else nil.
	claim *resourceapi.ResourceClaim
	base  *Side
}

// changes lists them. The second world is node b, but where classes or claims differ.
func changes(base, other *Side) (list []change) {
	for i, slice := range other.Slices {
		for _, c := range fieldchange.Of(slice, Values) {
			list = append(list, change{name: slice.Name + ": " + c.Name, row: c.Row, base: base, changed: func() (*Side, *resourceapi.ResourceClaim) {
				changed := *other
				changed.Slices = slices.Clone(other.Slices)
				changed.Slices[i] = c.Apply(slice, (*resourceapi.ResourceSlice).DeepCopy)
				return &changed, nil
			}})
		}
	}
	for _, c := range fieldchange.Of(other.Node, Values) {
		list = append(list, change{name: "node: " + c.Name, row: c.Row, base: base, changed: func() (*Side, *resourceapi.ResourceClaim) {
			changed := *other
			changed.Node = c.Apply(other.Node, (*corev1.Node).DeepCopy)
			return &changed, nil
		}})
	}
	for _, c := range fieldchange.Of(base.Class, Values) {
		list = append(list, change{name: "class: " + c.Name, row: c.Row, base: base, changed: func() (*Side, *resourceapi.ResourceClaim) {
			changed := *base
			changed.Class = c.Apply(base.Class, (*resourceapi.DeviceClass).DeepCopy)
			return &changed, nil
		}})
	}
	explaining := *base
	explaining.Explains = true
	for _, claim := range Claims() {
		for _, c := range fieldchange.Of(claim, Values) {
			if strings.HasPrefix(c.Name, "Status") {
				continue // what is in use is given with the state
			}
			list = append(list, change{name: "claim: " + c.Name, row: c.Row, base: &explaining, claim: claim, changed: func() (*Side, *resourceapi.ResourceClaim) {
				return &explaining, c.Apply(claim, (*resourceapi.ResourceClaim).DeepCopy)
			}})
		}
	}
	return list
}
