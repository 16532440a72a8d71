// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func (s *small) addClaims() {
	for range s.claimsWanted {
		s.addClaim()
	}
}

func (s *small) addClaim() {
	claim := s.newClaim("claim")
	constraints := s.constraints()
	slots := 1 + s.intn(3)
	if s.chance(0.95) {
		slots = s.enough(constraints)
	}
	for i := range 2 + s.intn(2) {
		if i > 0 && slots <= 0 {
			break
		}
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		if s.uses(s.on[PrioritizedList] && s.chance(0.6), s.c.Features.PrioritizedList) {
			slots -= s.prioritize(&request, slots)
		} else {
			request.Exactly = s.exact(slots)
			slots -= int(request.Exactly.Count)
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	s.addDerived(claim)
	for _, constraint := range constraints {
		if s.chance(s.scoped) {
			constraint.Requests = s.someRequests(claim)
		}
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, constraint)
	}
	s.c.Claims = append(s.c.Claims, claim)
}

// enough is about as many devices as meet the constraints together: what can be had
// only if others leave them, or in shares.
func (s *small) enough(constraints []resourceapi.DeviceConstraint) int {
	alike, most := make(map[string]int), 1
	for _, placed := range s.placed {
		values := ""
		for _, constraint := range constraints {
			name := ptr.Deref(constraint.MatchAttribute, ptr.Deref(constraint.DistinctAttribute, ""))
			_, id, _ := strings.Cut(string(name), "/")
			value := placed.device.Attributes[resourceapi.QualifiedName(id)].IntValue
			if value == nil {
				values = ""
				break
			}
			if constraint.MatchAttribute != nil {
				values += fmt.Sprintf("%s=%d ", id, *value)
			}
		}
		if alike[values]++; values != "" {
			most = max(most, alike[values])
		}
	}
	return max(1, min(most, 6)+pick(s.generator, 0, 0, 0, 1))
}

func (s *small) exact(slots int) *resourceapi.ExactDeviceRequest {
	x := &resourceapi.ExactDeviceRequest{
		DeviceClassName: pick(s.generator, anyClass, anyClass, "gpu"),
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           s.count(slots),
	}
	if s.on[AllDevices] && s.chance(0.5) {
		x.AllocationMode, x.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if s.uses(s.on[AdminAccess] && s.chance(0.5), s.c.Features.AdminAccess) {
		x.AdminAccess = ptr.To(s.chance(0.9))
	}
	if s.on[Taints] && s.chance(0.6) {
		x.Tolerations = s.tolerations()
	}
	if s.uses(s.on[SharesWithCapacity] && s.chance(0.6), s.c.Features.ConsumableCapacity) {
		x.Capacity = s.capacityRequests()
	}
	if s.on[FailingSelectors] && s.chance(0.5) {
		x.Selectors = append(x.Selectors, selector(s.failsWithoutAttribute()))
	}
	if s.chance(0.05) || s.on[AllDevices] && s.chance(0.4) {
		x.Selectors = append(x.Selectors, selector(s.neverFails()))
	}
	return x
}

// count is often all that is left to ask for or just one.
func (s *small) count(slots int) int64 {
	most := max(1, min(slots, 5))
	return int64(pick(s.generator, 1, most, most))
}

// failsWithoutAttribute is an expression that fails on devices which lack an attribute.
func (s *small) failsWithoutAttribute() string {
	return fmt.Sprintf(`device.attributes[%q].%s %s`, gpuDriver, pick(s.generator, smallAttributes...), s.comparison())
}

func (s *small) neverFails() string {
	return fmt.Sprintf(`device.attributes[%q].?%s.orValue(-1) %s`, gpuDriver, pick(s.generator, smallAttributes...), s.comparison())
}

// comparison fails on lists, which have no order.
func (s *small) comparison() string { return pick(s.generator, "== 0", "!= 0", ">= 0") }

// prioritize returns how many devices the request takes at most.
func (s *small) prioritize(request *resourceapi.DeviceRequest, slots int) int {
	most := 0
	for i := range 2 + s.intn(2) {
		x := s.exact(slots)
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprintf("s%d", i), DeviceClassName: x.DeviceClassName, Selectors: x.Selectors,
			AllocationMode: x.AllocationMode, Count: x.Count, Tolerations: x.Tolerations, Capacity: x.Capacity,
		})
		most = max(most, int(x.Count))
	}
	return most
}

// addDerived gives some requests a derived attribute, which some constraint may name.
func (s *small) addDerived(claim *resourceapi.ResourceClaim) {
	if !s.uses(s.on[DerivedAttributes], s.c.Features.DerivedAttributes) {
		return
	}
	name := pick(s.generator, derivedName, derivedName, gpuDriver+"/a")
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil && s.chance(0.8) {
			request.Exactly.DerivedAttributes = s.derivedValue(name)
		}
		for j := range request.FirstAvailable {
			if s.chance(0.8) {
				request.FirstAvailable[j].DerivedAttributes = s.derivedValue(name)
			}
		}
	}
	requests := s.derivers(claim)
	if len(requests) > 0 && !s.chance(0.2) {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, s.constraint(name, requests))
	}
}

// derivers are the requests and subrequests with derived attributes.
func (s *small) derivers(claim *resourceapi.ResourceClaim) []string {
	var names []string
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil && len(request.Exactly.DerivedAttributes) > 0 {
			names = append(names, request.Name)
		}
		for _, sub := range request.FirstAvailable {
			if len(sub.DerivedAttributes) > 0 {
				names = append(names, request.Name+"/"+sub.Name)
			}
		}
	}
	return names
}

func (s *small) derivedValue(name string) []resourceapi.DeviceDerivedAttribute {
	expression := pick(s.generator,
		`device.attributes[DRIVER].?a.orValue(7)`,
		`device.attributes[DRIVER].?b.orValue(1)`,
		`string(device.attributes[DRIVER].?b.orValue(0)) + string(device.attributes[DRIVER].?c.orValue(0))`,
		`device.driver`,
		`[0, 1]`,
	)
	if s.on[FailingSelectors] && s.chance(0.3) {
		expression = `device.attributes[DRIVER].c`
	}
	return []resourceapi.DeviceDerivedAttribute{{Name: resourceapi.FullyQualifiedName(name), Expression: forDriver(expression, gpuDriver)}}
}

// constraints are over all requests of a claim.
func (s *small) constraints() []resourceapi.DeviceConstraint {
	kinds := make([]Tag, 0, 2)
	for _, kind := range []Tag{MatchAttribute, DistinctAttribute} {
		if s.on[kind] {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	var constraints []resourceapi.DeviceConstraint
	for range 2 + s.intn(2) {
		name := resourceapi.FullyQualifiedName(pick(s.generator, s.attributes...))
		constraint := resourceapi.DeviceConstraint{MatchAttribute: &name}
		if pick(s.generator, kinds...) == DistinctAttribute {
			constraint = resourceapi.DeviceConstraint{DistinctAttribute: &name}
		}
		constraints = append(constraints, constraint)
	}
	return constraints
}
