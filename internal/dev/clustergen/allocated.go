// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// addAllocated marks some devices as in use, by claims allocated earlier. Together
// they may hold more than there is: counters and capacities change under a claim.
func (g *generator) addAllocated() {
	if !g.plan.used {
		return
	}
	share := 0.15 + 0.15*float64(g.intn(2))
	groups, mixed := g.plan.groups && g.chance(0.6), g.chance(0.05)
	for _, placed := range g.placed {
		if !g.chance(share) || !mixed && differsInGroups(placed.device, groups) {
			continue
		}
		g.allocate(placed.slice.Spec.Driver, placed.slice.Spec.Pool.Name, placed.device)
		if ptr.Deref(placed.device.AllowMultipleAllocations, false) && g.chance(0.4) {
			g.allocate(placed.slice.Spec.Driver, placed.slice.Spec.Pool.Name, placed.device)
		}
	}
	if g.chance(0.15) {
		g.allocate(gpuDriver, "pool-a1", &resourceapi.Device{Name: "vanished"})
	}
}

// differsInGroups tells whether a device draws from a counter set with groups where
// none are wanted, or the other way round.
func differsInGroups(device *resourceapi.Device, groups bool) bool {
	return slices.ContainsFunc(device.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool {
		return (len(c.CompatibilityGroups) > 0) != groups
	})
}

func (g *generator) allocate(driver, pool string, device *resourceapi.Device) {
	result := resourceapi.DeviceRequestAllocationResult{
		Request: "r0", Driver: driver, Pool: pool, Device: device.Name,
	}
	if g.chance(0.12) {
		result.AdminAccess = ptr.To(true)
	}
	if ptr.Deref(device.AllowMultipleAllocations, false) && g.chance(0.97) {
		result.ShareID = ptr.To(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", g.claimUIDs)))
		result.ConsumedCapacity = g.consumed(device)
	}
	claim := g.newClaim("used")
	exactly := g.exactly(anyClass)
	exactly.AdminAccess = result.AdminAccess
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r0", Exactly: exactly}}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}},
	}
	g.c.Allocated = append(g.c.Allocated, claim)
}

// consumed is what an earlier share took. Nil (allocated before the device had
// capacities) stays possible.
func (g *generator) consumed(device *resourceapi.Device) map[resourceapi.QualifiedName]resource.Quantity {
	if len(device.Capacity) == 0 || g.chance(0.1) {
		return nil
	}
	consumed := make(map[resourceapi.QualifiedName]resource.Quantity)
	for _, kind := range capacityKinds {
		if _, ok := device.Capacity[kind.name]; ok {
			consumed[kind.name] = quantity(pick(g, kind.requests[:len(kind.requests)-2]...))
		}
	}
	return consumed
}

func (g *generator) newClaim(prefix string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace = "default"
	claim.Name = fmt.Sprintf("%s-%d", prefix, g.claimUIDs)
	claim.UID = types.UID(fmt.Sprintf("10000000-0000-0000-0000-%012d", g.claimUIDs))
	g.claimUIDs++
	return claim
}

func (g *generator) exactly(class string) *resourceapi.ExactDeviceRequest {
	return &resourceapi.ExactDeviceRequest{
		DeviceClassName: class,
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           1,
	}
}
