// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// wanted is what an exact request and a subrequest have in common.
type wanted struct {
	driver, class string
	selectors     []resourceapi.DeviceSelector
	mode          resourceapi.DeviceAllocationMode
	count         int64
	tolerations   []resourceapi.DeviceToleration
	capacity      *resourceapi.CapacityRequirements
}

func (g *generator) addClaims() {
	claims := pick(g, 1, 1, 2, 3)
	if g.plan.crowded {
		claims = pick(g, 1, 1, 1, 1, 1, 1, 1, 2)
	}
	for range claims {
		g.addClaim((g.plan.slots + claims - 1) / claims)
	}
}

// addClaim adds a claim that wants at most the given number of devices by exact
// counts.
func (g *generator) addClaim(slots int) {
	claim := g.newClaim("claim")
	for i := range 1 + g.intn(4) {
		if slots <= 0 {
			break
		}
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		if g.uses(g.plan.prioritized && g.chance(0.5), g.c.Features.PrioritizedList) {
			slots -= g.prioritize(&request, slots)
		} else {
			slots -= g.want(&request, slots)
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	if g.chance(0.005) {
		claim.Spec.Devices.Requests = nil
	}
	g.addConstraints(claim)
	g.addConfigs(claim)
	g.c.Claims = append(g.c.Claims, claim)
}

// want fills an exact request and returns how many devices it takes at most.
func (g *generator) want(request *resourceapi.DeviceRequest, slots int) int {
	w := g.wanted(slots)
	request.Exactly = &resourceapi.ExactDeviceRequest{
		DeviceClassName: w.class, Selectors: w.selectors, AllocationMode: w.mode, Count: w.count,
		Tolerations: w.tolerations, Capacity: w.capacity,
	}
	if g.uses(g.plan.admin && g.chance(0.5), g.c.Features.AdminAccess) {
		request.Exactly.AdminAccess = ptr.To(g.chance(0.9))
	}
	return int(w.count)
}

func (g *generator) prioritize(request *resourceapi.DeviceRequest, slots int) int {
	most := 0
	for i := range 1 + g.intn(4) {
		w := g.wanted(slots)
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprintf("s%d", i), DeviceClassName: w.class, Selectors: w.selectors,
			AllocationMode: w.mode, Count: w.count, Tolerations: w.tolerations, Capacity: w.capacity,
		})
		most = max(most, int(w.count))
	}
	return most
}

func (g *generator) wanted(slots int) wanted {
	driver := pick(g, g.drivers...)
	w := wanted{driver: driver, class: classOf(driver), mode: resourceapi.DeviceAllocationModeExactCount}
	switch {
	case g.chance(0.15):
		w.class = anyClass
	case driver == gpuDriver && g.chance(0.15):
		w.class = "gpu-a"
	}
	w.selectors = g.selectors(driver)
	w.count = int64(1 + g.intn(min(slots, 3)))
	switch {
	case g.plan.all && g.chance(0.5):
		w.mode, w.count = resourceapi.DeviceAllocationModeAll, 0
	case g.plan.crowded && g.chance(0.4):
		w.count = g.largeCount()
	}
	if g.plan.taints && g.chance(0.6) {
		w.tolerations = g.tolerations()
	}
	if g.uses(g.plan.capacity && g.chance(0.6), g.c.Features.ConsumableCapacity) {
		w.capacity = g.capacityRequests()
	}
	return w
}

// largeCount is near the limit for a claim. More than there are would make an
// exhaustive search walk through all combinations, so that stays rare.
func (g *generator) largeCount() int64 {
	count := pick(g, int64(20), 20, 31, 32, 33)
	if count <= resourceapi.AllocationResultsMaxSize && g.chance(0.95) {
		count = min(count, g.reachable())
	}
	return count
}

// reachable is the number of devices in slices that reach the node of the case.
func (g *generator) reachable() int64 {
	count := int64(0)
	for _, placed := range g.placed {
		if reaches(placed.slice, askedNode(g.c)) {
			count++
		}
	}
	return max(1, count)
}

func (g *generator) tolerations() []resourceapi.DeviceToleration {
	var tolerations []resourceapi.DeviceToleration
	for range 1 + g.intn(2) {
		toleration := resourceapi.DeviceToleration{
			Key:      pick(g, "broken.example.com", "reserved.example.com"),
			Operator: resourceapi.DeviceTolerationOpExists,
			Effect:   pick(g, "", "", resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute),
		}
		switch {
		case g.chance(0.4):
			toleration.Operator = resourceapi.DeviceTolerationOpEqual
			toleration.Value = pick(g, "", "team-a", "team-b")
		case g.chance(0.2):
			toleration.Key = ""
		}
		tolerations = append(tolerations, toleration)
	}
	return tolerations
}
