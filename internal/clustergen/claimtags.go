package clustergen

import (
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
	t.set("prioritized list", len(request.FirstAvailable) > 0)
	for _, sub := range request.FirstAvailable {
		t.wanted(sub.DeviceClassName, sub.AllocationMode, sub.Count, sub.Selectors, sub.Tolerations, sub.Capacity, sub.DerivedAttributes)
	}
	if exactly := request.Exactly; exactly != nil {
		t.set("admin access", ptr.Deref(exactly.AdminAccess, false))
		t.wanted(exactly.DeviceClassName, exactly.AllocationMode, exactly.Count, exactly.Selectors,
			exactly.Tolerations, exactly.Capacity, exactly.DerivedAttributes)
	}
}

func (t tagger) wanted(class string, mode resourceapi.DeviceAllocationMode, count int64, selectors []resourceapi.DeviceSelector,
	tolerations []resourceapi.DeviceToleration, capacity *resourceapi.CapacityRequirements, derived []resourceapi.DeviceDerivedAttribute,
) {
	t.set("class selectors", class != anyClass)
	t.set("exact count", mode == resourceapi.DeviceAllocationModeExactCount)
	t.set("all devices", mode == resourceapi.DeviceAllocationModeAll)
	t.set("near device limit", count >= 10)
	t.set("request selectors", len(selectors) > 0)
	t.set("tolerations", len(tolerations) > 0)
	t.set("capacity requests", capacity != nil && len(capacity.Requests) > 0)
	t.set("derived attributes", len(derived) > 0)
}

func (t tagger) constraint(claim *resourceapi.ResourceClaim, constraint resourceapi.DeviceConstraint) {
	t.set("match attribute", constraint.MatchAttribute != nil)
	t.set("distinct attribute", constraint.DistinctAttribute != nil)
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
