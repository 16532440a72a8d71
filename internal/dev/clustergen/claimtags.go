// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func (t tagger) claim(claim *resourceapi.ResourceClaim) {
	devices := &claim.Spec.Devices
	t.set("several requests", len(devices.Requests) > 1)
	for i := range devices.Requests {
		t.request(&devices.Requests[i])
	}
	for _, constraint := range devices.Constraints {
		t.constraint(claim, constraint)
	}
	for _, config := range devices.Config {
		t.set("claim config", true)
		t.set("config of subrequest", namesSubrequest(config.Requests))
	}
}

func (t tagger) request(request *resourceapi.DeviceRequest) {
	t.set(PrioritizedList, len(request.FirstAvailable) > 0)
	for _, sub := range request.FirstAvailable {
		t.wanted(sub.DeviceClassName, sub.AllocationMode, sub.Count, sub.Selectors, sub.Tolerations, sub.Capacity, sub.DerivedAttributes)
	}
	if exactly := request.Exactly; exactly != nil {
		t.set(AdminAccess, ptr.Deref(exactly.AdminAccess, false))
		t.wanted(exactly.DeviceClassName, exactly.AllocationMode, exactly.Count, exactly.Selectors,
			exactly.Tolerations, exactly.Capacity, exactly.DerivedAttributes)
	}
}

func (t tagger) wanted(class string, mode resourceapi.DeviceAllocationMode, count int64, selectors []resourceapi.DeviceSelector,
	tolerations []resourceapi.DeviceToleration, capacity *resourceapi.CapacityRequirements, derived []resourceapi.DeviceDerivedAttribute,
) {
	t.set("class selectors", class != anyClass)
	t.set("exact count", mode == resourceapi.DeviceAllocationModeExactCount)
	t.set(AllDevices, mode == resourceapi.DeviceAllocationModeAll)
	t.set("near device limit", count >= 10)
	t.set("request selectors", len(selectors) > 0)
	for _, selector := range selectors {
		t.set(FailingSelectors, selector.CEL != nil && canFail(selector.CEL.Expression))
	}
	for _, attribute := range derived {
		t.set(FailingSelectors, canFail(attribute.Expression))
	}
	t.set("tolerations", len(tolerations) > 0)
	t.set("capacity requests", capacity != nil && len(capacity.Requests) > 0)
	t.set(DerivedAttributes, len(derived) > 0)
}

// readsUnchecked finds attributes and capacities that are read as if every device had
// them: neither with an optional, nor behind a test for presence.
var readsUnchecked = regexp.MustCompile(`(attributes|capacity)\["[^"]*"\]\.[a-z]`)

// canFail tells whether an expression fails at run time on devices that lack something.
func canFail(expression string) bool {
	return readsUnchecked.MatchString(expression) && !strings.Contains(expression, `" in device.`)
}

func (t tagger) constraint(claim *resourceapi.ResourceClaim, constraint resourceapi.DeviceConstraint) {
	t.set(MatchAttribute, constraint.MatchAttribute != nil)
	t.set(DistinctAttribute, constraint.DistinctAttribute != nil)
	t.set("constraint on subrequest", namesSubrequest(constraint.Requests))
	classes := make(map[string]bool)
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil {
			classes[request.Exactly.DeviceClassName] = true
		}
		for _, sub := range request.FirstAvailable {
			classes[sub.DeviceClassName] = true
		}
	}
	t.set("constraint over drivers", len(constraint.Requests) == 0 && classes[classOf(gpuDriver)] && classes[classOf(nicDriver)])
}

func namesSubrequest(requests []string) bool {
	return strings.Contains(strings.Join(requests, " "), "/")
}
