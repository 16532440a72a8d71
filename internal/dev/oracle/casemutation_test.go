// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// exactRequestOf finds the exact request that the first result is for.
func exactRequestOf(claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) *resourceapi.ExactDeviceRequest {
	if len(result.Devices.Results) == 0 {
		return nil
	}
	for i := range claim.Spec.Devices.Requests {
		if claim.Spec.Devices.Requests[i].Name == result.Devices.Results[0].Request {
			return claim.Spec.Devices.Requests[i].Exactly
		}
	}
	return nil
}

func onRequest(change func(*alloctest.Case, *resourceapi.ExactDeviceRequest, resourceapi.DeviceRequestAllocationResult) bool) mutation {
	return func(c *alloctest.Case, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		exactly := exactRequestOf(claim, result)
		return exactly != nil && change(c, exactly, result.Devices.Results[0])
	}
}

func constrain(constraint resourceapi.DeviceConstraint, devices int) mutation {
	return func(_ *alloctest.Case, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, constraint)
		return len(result.Devices.Results) >= devices
	}
}

func name(s string) *resourceapi.FullyQualifiedName { return ptr.To(resourceapi.FullyQualifiedName(s)) }

func use(c *alloctest.Case, result resourceapi.DeviceRequestAllocationResult) {
	claim := &resourceapi.ResourceClaim{}
	claim.Name = "earlier"
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{result}
	c.Allocated = append(c.Allocated, claim)
}

var caseMutations = map[string]mutation{
	"in use": onRequest(func(c *alloctest.Case, exactly *resourceapi.ExactDeviceRequest, result resourceapi.DeviceRequestAllocationResult) bool {
		result.ShareID, result.AdminAccess = nil, nil
		use(c, result)
		return !ptr.Deref(exactly.AdminAccess, false)
	}),
	"capacity in use": onRequest(func(c *alloctest.Case, _ *resourceapi.ExactDeviceRequest, result resourceapi.DeviceRequestAllocationResult) bool {
		if result.ShareID == nil || ptr.Deref(result.AdminAccess, false) {
			return false
		}
		for name := range result.ConsumedCapacity {
			result.ConsumedCapacity[name] = resource.MustParse("1000Gi")
		}
		use(c, result)
		return len(result.ConsumedCapacity) > 0
	}),
	"capacity shrunk": onDevice(func(r *resourceapi.DeviceRequestAllocationResult, _ *resourceapi.ResourceSlice, d *resourceapi.Device) bool {
		memory, ok := d.Capacity["memory"]
		if !ok || !ptr.Deref(d.AllowMultipleAllocations, false) {
			return false
		}
		memory.Value = resource.MustParse("1")
		d.Capacity["memory"] = memory
		return len(r.ConsumedCapacity) > 0 && !consumesNothing(r, "memory")
	}),
	"capacity asked for is missing": onRequest(func(c *alloctest.Case, exactly *resourceapi.ExactDeviceRequest, _ resourceapi.DeviceRequestAllocationResult) bool {
		exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"none": {}}}
		return true
	}),
	"one device more asked for": onRequest(func(_ *alloctest.Case, exactly *resourceapi.ExactDeviceRequest, _ resourceapi.DeviceRequestAllocationResult) bool {
		exactly.Count++
		return exactly.AllocationMode == resourceapi.DeviceAllocationModeExactCount
	}),
	"one more of all matches": oneMoreOfAll,
	"selector does not match": onRequest(func(_ *alloctest.Case, exactly *resourceapi.ExactDeviceRequest, _ resourceapi.DeviceRequestAllocationResult) bool {
		exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}})
		return true
	}),
	"class does not match": onRequest(func(c *alloctest.Case, exactly *resourceapi.ExactDeviceRequest, _ resourceapi.DeviceRequestAllocationResult) bool {
		for _, class := range c.Classes {
			class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "1 > 2"}}}
		}
		return true
	}),
	"tainted": onDevice(func(r *resourceapi.DeviceRequestAllocationResult, _ *resourceapi.ResourceSlice, d *resourceapi.Device) bool {
		d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: "new", Effect: resourceapi.DeviceTaintEffectNoExecute})
		return len(r.Tolerations) == 0
	}),
	"attribute to match is missing":    constrain(resourceapi.DeviceConstraint{MatchAttribute: name("gpu.example.com/none")}, 1),
	"attribute to differ is missing":   constrain(resourceapi.DeviceConstraint{DistinctAttribute: name("gpu.example.com/none")}, 1),
	"attribute to differ is equal":     publishing(constrain(resourceapi.DeviceConstraint{DistinctAttribute: name("all.example.com/same")}, 2)),
	"attribute to match is not equal":  publishing(constrain(resourceapi.DeviceConstraint{MatchAttribute: name("all.example.com/own")}, 2)),
	"constraint of unknown kind":       constrain(resourceapi.DeviceConstraint{}, 1),
	"device on another node":           onDevice(elsewhere),
	"slice is outdated":                onDevice(outdated),
	"pool is incomplete":               onDevice(incomplete),
	"counter set is unknown":           onDevice(unknownCounterSet),
	"operations that the node lacks":   onDevice(skipsOperations),
	"prioritized list is off":          featureOff,
	"counters are used up":             countersUsedUp,
	"groups do not go with one in use": groupsDiffer,
}

// oneMoreOfAll adds a device like one that a request for all devices got.
func oneMoreOfAll(c *alloctest.Case, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
	exactly := exactRequestOf(claim, result)
	if exactly == nil || exactly.AllocationMode != resourceapi.DeviceAllocationModeAll {
		return false
	}
	return onDevice(func(_ *resourceapi.DeviceRequestAllocationResult, slice *resourceapi.ResourceSlice, d *resourceapi.Device) bool {
		again := d.DeepCopy()
		again.Name = "one-more"
		slice.Spec.Devices = append(slice.Spec.Devices, *again)
		return true
	})(c, claim, result)
}

func consumesNothing(r *resourceapi.DeviceRequestAllocationResult, capacity resourceapi.QualifiedName) bool {
	consumed := r.ConsumedCapacity[capacity]
	return consumed.IsZero()
}

// publishing gives all devices of the case an attribute with a value of their own and
// one with the same value.
func publishing(m mutation) mutation {
	return func(c *alloctest.Case, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
		for _, slice := range c.Slices {
			for i := range slice.Spec.Devices {
				value := slice.Name + slice.Spec.Devices[i].Name
				slice.Spec.Devices[i].Attributes["all.example.com/own"] = resourceapi.DeviceAttribute{StringValue: &value}
				slice.Spec.Devices[i].Attributes["all.example.com/same"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
			}
		}
		return m(c, claim, result)
	}
}

func elsewhere(_ *resourceapi.DeviceRequestAllocationResult, slice *resourceapi.ResourceSlice, _ *resourceapi.Device) bool {
	slice.Spec.NodeName, slice.Spec.NodeSelector, slice.Spec.AllNodes = ptr.To("elsewhere"), nil, nil
	return !ptr.Deref(slice.Spec.PerDeviceNodeSelection, false)
}

func outdated(_ *resourceapi.DeviceRequestAllocationResult, slice *resourceapi.ResourceSlice, _ *resourceapi.Device) bool {
	slice.Spec.Pool.Generation--
	return slice.Spec.Pool.ResourceSliceCount > 1
}

func incomplete(_ *resourceapi.DeviceRequestAllocationResult, slice *resourceapi.ResourceSlice, _ *resourceapi.Device) bool {
	slice.Spec.Pool.ResourceSliceCount += 5
	return true
}

func unknownCounterSet(_ *resourceapi.DeviceRequestAllocationResult, _ *resourceapi.ResourceSlice, d *resourceapi.Device) bool {
	d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "unknown"}}
	return true
}

func skipsOperations(_ *resourceapi.DeviceRequestAllocationResult, slice *resourceapi.ResourceSlice, _ *resourceapi.Device) bool {
	slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"new"}
	return true
}

func featureOff(c *alloctest.Case, claim *resourceapi.ResourceClaim, _ *resourceapi.AllocationResult) bool {
	c.Features.PrioritizedList = false
	for _, request := range claim.Spec.Devices.Requests {
		if len(request.FirstAvailable) > 0 {
			return true
		}
	}
	return false
}

// countersUsedUp empties the counters that the first device draws from.
func countersUsedUp(c *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
	if len(result.Devices.Results) == 0 || result.Devices.Results[0].ShareID != nil {
		return false
	}
	r := result.Devices.Results[0]
	draws := false
	for _, slice := range c.Slices {
		if slice.Spec.Driver != r.Driver || slice.Spec.Pool.Name != r.Pool {
			continue
		}
		for _, set := range slice.Spec.SharedCounters {
			set.Counters["slices"] = resourceapi.Counter{}
		}
		for _, d := range slice.Spec.Devices {
			for _, consumption := range d.ConsumesCounters {
				wanted := consumption.Counters["slices"]
				draws = draws || d.Name == r.Device && !wanted.Value.IsZero()
			}
		}
	}
	return draws
}

// groupsDiffer puts nothing in use but a device with a group of its own on the same
// counter sets.
func groupsDiffer(c *alloctest.Case, _ *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) bool {
	if len(result.Devices.Results) == 0 || result.Devices.Results[0].ShareID != nil || !c.Features.CompatibilityGroups {
		return false
	}
	r := result.Devices.Results[0]
	for _, slice := range c.Slices {
		if slice.Spec.Driver != r.Driver || slice.Spec.Pool.Name != r.Pool {
			continue
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if d.Name != r.Device || len(d.ConsumesCounters) == 0 {
				continue
			}
			other := d.DeepCopy()
			other.Name = "other"
			for j := range other.ConsumesCounters {
				other.ConsumesCounters[j].Counters = nil
				other.ConsumesCounters[j].CompatibilityGroups = []string{"own"}
			}
			slice.Spec.Devices = append(slice.Spec.Devices, *other)
			c.Allocated = nil
			use(c, resourceapi.DeviceRequestAllocationResult{Driver: r.Driver, Pool: r.Pool, Device: "other"})
			return true
		}
	}
	return false
}
