// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
)

// mostGroupValues bounds DistinctLimit.Most in a Group.
const mostGroupValues = 32

// Group is a set of constraints over the devices of all pods of a PodGroup. It is written as JSON into the
// Annotation of the PodGroup. The zero value asks for nothing.
type Group struct {
	// Constraints are matches that the devices of all pods must satisfy.
	Constraints []GroupMatch `json:"constraints,omitempty"`
	// MaxDistinct limits how many different values of an attribute the devices of all pods have.
	MaxDistinct []DistinctLimit `json:"maxDistinct,omitempty"`
	// Preferred are matches that the devices should satisfy, the most important first. No pod loses its place
	// for one. They are more important than the order of alternatives.
	Preferred []GroupMatch `json:"preferred,omitempty"`
}

// GroupMatch requires a value of the attribute that all devices have, alone or in a list.
type GroupMatch struct {
	MatchAttribute resourceapi.FullyQualifiedName `json:"matchAttribute"`
	// Requests are the names of requests of the claims of the pods, or "request/subrequest". Empty means all
	// requests.
	Requests []string `json:"requests,omitempty"`
}

// IsZero reports whether nothing is asked for.
func (g Group) IsZero() bool { return len(g.Constraints)+len(g.MaxDistinct)+len(g.Preferred) == 0 }

// GroupOf reads the Annotation of a PodGroup from its annotations. A group without it has the zero value. The
// error names the wrong field. Unknown fields are errors, as are duplicate fields and fields in another case.
// Names of requests are not checked: see Check.
func GroupOf(annotations map[string]string) (Group, error) {
	text, found := annotations[Annotation]
	if !found {
		return Group{}, nil
	}
	var g Group
	strict, err := json.UnmarshalStrict([]byte(text), &g)
	if err = errors.Join(append(strict, err)...); err == nil {
		err = g.valid()
	}
	if err != nil {
		return Group{}, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	return g, nil
}

// groupPart is one constraint, limit or preference of a Group, with the name of its field.
type groupPart struct {
	field, attributeField string
	attribute             resourceapi.FullyQualifiedName
	requests              []string
}

func (g Group) parts() []groupPart {
	var list []groupPart
	for i, c := range g.Constraints {
		list = append(list, groupPart{fmt.Sprintf("constraints[%d]", i), "matchAttribute", c.MatchAttribute, c.Requests})
	}
	for i, c := range g.MaxDistinct {
		list = append(list, groupPart{fmt.Sprintf("maxDistinct[%d]", i), "attribute", c.Attribute, c.Requests})
	}
	for i, c := range g.Preferred {
		list = append(list, groupPart{fmt.Sprintf("preferred[%d]", i), "matchAttribute", c.MatchAttribute, c.Requests})
	}
	return list
}

func (g Group) valid() error {
	if n := len(g.parts()); n > MatchesMaxSize {
		return fmt.Errorf("%d constraints, maxDistinct and preferred together: at most %d", n, MatchesMaxSize)
	}
	for _, part := range g.parts() {
		if !isAttribute(part.attribute) {
			return fmt.Errorf("%s.%s: %q: want domain/name", part.field, part.attributeField, part.attribute)
		}
		if len(part.requests) > resourceapi.DeviceRequestsMaxSize {
			return fmt.Errorf("%s.requests: %d names: at most %d", part.field, len(part.requests), resourceapi.DeviceRequestsMaxSize)
		}
	}
	for i, c := range g.MaxDistinct {
		if c.Most < 1 || c.Most > mostGroupValues {
			return fmt.Errorf("maxDistinct[%d].most: %d: want 1 to %d", i, c.Most, mostGroupValues)
		}
	}
	return nil
}

// isAttribute reports whether a device can have an attribute of this name.
func isAttribute(name resourceapi.FullyQualifiedName) bool {
	domain, id, _ := strings.Cut(string(name), "/")
	return len(domain) <= resourceapi.DeviceMaxDomainLength && len(id) <= resourceapi.DeviceMaxIDLength &&
		len(validation.IsDNS1123Subdomain(domain)) == 0 && len(validation.IsCIdentifier(id)) == 0
}

// Check compares a Group with the claims of all pods. The error names a field whose request no claim has, or
// whose requests ask for all devices.
func (g Group) Check(claims []*resourceapi.ResourceClaim) error {
	for _, part := range g.parts() {
		for i, name := range part.requests {
			if !slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool { return hasRequest(c, name) }) {
				return fmt.Errorf("annotation %s: %s.requests[%d]: no pod of the group has a request %q", Annotation, part.field, i, name)
			}
		}
		for _, claim := range claims {
			for _, request := range claim.Spec.Devices.Requests {
				if all := asksForAll(&request, part.requests); all != "" {
					return fmt.Errorf("annotation %s: %s: request %q asks for all devices", Annotation, part.field, all)
				}
			}
		}
	}
	return nil
}

func hasRequest(claim *resourceapi.ResourceClaim, name string) bool {
	parent, sub, listed := strings.Cut(name, "/")
	return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
		return r.Name == parent && (!listed || slices.ContainsFunc(r.FirstAvailable, func(s resourceapi.DeviceSubRequest) bool { return s.Name == sub }))
	})
}

// asksForAll returns the name of a request or subrequest that the names cover and that has allocationMode All,
// empty if there is none.
func asksForAll(r *resourceapi.DeviceRequest, names []string) string {
	if r.Exactly != nil && r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll && Covers(names, r.Name) {
		return r.Name
	}
	for _, sub := range r.FirstAvailable {
		if name := r.Name + "/" + sub.Name; sub.AllocationMode == resourceapi.DeviceAllocationModeAll && Covers(names, name) {
			return name
		}
	}
	return ""
}

// Covers reports whether a list of requests covers a request or "request/subrequest". An empty list covers all.
func Covers(requests []string, name string) bool {
	parent, _, _ := strings.Cut(name, "/")
	return len(requests) == 0 || slices.Contains(requests, parent) || slices.Contains(requests, name)
}
