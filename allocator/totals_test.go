// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// stepped is a capacity of which shares take none, or whole steps.
func stepped(value, step int64) resourceapi.DeviceCapacity {
	zero := resource.MustParse("0")
	return resourceapi.DeviceCapacity{Value: *resource.NewQuantity(value, resource.DecimalSI), RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: &zero, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &zero, Step: resource.NewQuantity(step, resource.DecimalSI)},
	}}
}

// has reports whether the devices of a request have its totals.
func (e *enumeration) has(claim int, name string) bool {
	return e.missing(claim, name) <= 0
}

// missing is what the devices chosen lack of a total.
func (e *enumeration) missing(claim int, name string) int64 {
	total := e.extension[claim].Requests[name].Totals[memory]
	missing := total.Value()
	for _, c := range e.chosen {
		if c.claim == claim && c.request == name {
			missing -= c.gives
		}
	}
	return missing
}

// fill has a share take step after step while any is missing and the next step is free.
func (e *enumeration) fill(pick *smallPick) {
	d, missing := pick.device, e.missing(pick.claim, pick.request)
	if d.step == 0 {
		pick.gives = d.memory
		return
	}
	free := d.memory - d.inUse
	for _, c := range e.chosen {
		if c.device == d {
			free -= c.takes
		}
	}
	for pick.takes < missing && pick.takes+d.step <= free {
		pick.takes += d.step
	}
	pick.gives = min(pick.takes, max(missing, 0))
}

// memoryOfA is what devices of one driver have of the memory.
const memoryOfA = resourceapi.FullyQualifiedName("a.example.com/memory")

// sameMemory reports whether the devices of a claim, or of its request, are of that driver and have the
// same memory.
func (e *enumeration) sameMemory(claim int, requests []string) bool {
	var devices []*smallDevice
	for _, pick := range e.chosen {
		if request, _, _ := strings.Cut(pick.request, "/"); pick.claim == claim && (len(requests) == 0 || request == requests[0]) {
			devices = append(devices, pick.device)
		}
	}
	return !slices.ContainsFunc(devices, func(d *smallDevice) bool { return d.Driver != "a.example.com" || d.memory != devices[0].memory })
}
