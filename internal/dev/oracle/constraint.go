// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
)

func (w *world) checkConstraints(placements []placement) error {
	for c, claim := range w.c.Claims {
		for i, constraint := range claim.Spec.Devices.Constraints {
			if err := w.checkConstraint(constraint, concerned(placements, c, constraint.Requests)); err != nil {
				return fmt.Errorf("claim %d constraint %d: %w", c, i, err)
			}
		}
		more, err := extension.Of(claim)
		if err != nil {
			return fmt.Errorf("claim %d: %w", c, err)
		}
		for i, limit := range more.MaxDistinct {
			if err := w.checkLimitOfValues(limit, concerned(placements, c, limit.Requests)); err != nil {
				return fmt.Errorf("claim %d limit %d: %w", c, i, err)
			}
		}
	}
	return nil
}

// concerned are the placements for some requests of a claim, all if none is named.
func concerned(placements []placement, claim int, requests []string) (some []placement) {
	for _, p := range placements {
		if p.want.claim == claim && p.want.in(requests) {
			some = append(some, p)
		}
	}
	return some
}

// checkLimitOfValues: all elements of all devices together are not too many. Something unknown is no value.
func (w *world) checkLimitOfValues(limit extension.DistinctLimit, placements []placement) error {
	attributes, err := w.attributes(placements, limit.Attribute)
	if err != nil {
		return err
	}
	different := make(map[any]bool)
	for _, attribute := range attributes {
		values := w.values(attribute)
		if len(values) == 0 {
			return fmt.Errorf("attribute type is unknown")
		}
		for _, v := range values {
			different[v] = true
		}
	}
	if int64(len(different)) > limit.Most {
		return fmt.Errorf("%d values, at most %d are allowed", len(different), limit.Most)
	}
	return nil
}

func (w *world) checkConstraint(constraint resourceapi.DeviceConstraint, placements []placement) error {
	switch {
	case constraint.MatchAttribute != nil:
		attributes, err := w.attributes(placements, *constraint.MatchAttribute)
		if err != nil {
			return err
		}
		return w.checkMatch(attributes)
	case constraint.DistinctAttribute != nil:
		attributes, err := w.attributes(placements, *constraint.DistinctAttribute)
		if err != nil {
			return err
		}
		return w.checkDistinct(attributes)
	}
	return fmt.Errorf("is of an unknown kind")
}

func (w *world) attributes(placements []placement, name resourceapi.FullyQualifiedName) ([]*resourceapi.DeviceAttribute, error) {
	var attributes []*resourceapi.DeviceAttribute
	for _, p := range placements {
		attribute, err := w.attribute(p, name)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", p.device.id, err)
		}
		if attribute == nil || w.c.Features.ListTypeAttributes && len(elements(attribute)) == 0 {
			return nil, fmt.Errorf("device %s has no attribute %s", p.device.id, name)
		}
		attributes = append(attributes, attribute)
	}
	return attributes, nil
}

// checkMatch: all have an element in common. Without list attributes a list is
// something unknown, which goes only alone.
func (w *world) checkMatch(attributes []*resourceapi.DeviceAttribute) error {
	if len(attributes) < 2 {
		return nil
	}
	common := w.values(attributes[0])
	for _, attribute := range attributes[1:] {
		values := w.values(attribute)
		common = slices.DeleteFunc(common, func(v any) bool { return !slices.Contains(values, v) })
	}
	if len(common) == 0 {
		return fmt.Errorf("values do not match")
	}
	return nil
}

// checkDistinct: no element occurs twice. Without list attributes nothing unknown may
// join others.
func (w *world) checkDistinct(attributes []*resourceapi.DeviceAttribute) error {
	for i, attribute := range attributes {
		values := w.values(attribute)
		if i > 0 && len(values) == 0 {
			return fmt.Errorf("attribute type is unknown")
		}
		for _, other := range attributes[:i] {
			if slices.ContainsFunc(w.values(other), func(v any) bool { return slices.Contains(values, v) }) {
				return fmt.Errorf("values are not distinct")
			}
		}
	}
	return nil
}

func (w *world) values(attribute *resourceapi.DeviceAttribute) []any {
	if w.c.Features.ListTypeAttributes {
		return elements(attribute)
	}
	return scalar(attribute)
}

// version keeps version strings apart from other strings.
type version string

func scalar(a *resourceapi.DeviceAttribute) []any {
	switch {
	case a.StringValue != nil:
		return []any{*a.StringValue}
	case a.IntValue != nil:
		return []any{*a.IntValue}
	case a.BoolValue != nil:
		return []any{*a.BoolValue}
	case a.VersionValue != nil:
		return []any{version(*a.VersionValue)}
	}
	return nil
}

// elements treats a scalar as a list of one.
func elements(a *resourceapi.DeviceAttribute) []any {
	values := scalar(a)
	for _, v := range a.IntValues {
		values = append(values, v)
	}
	for _, v := range a.BoolValues {
		values = append(values, v)
	}
	for _, v := range a.StringValues {
		values = append(values, v)
	}
	for _, v := range a.VersionValues {
		values = append(values, version(v))
	}
	return values
}
