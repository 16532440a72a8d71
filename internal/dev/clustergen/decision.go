// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// DecisionWholePool is the number of the decision on pool generations and
// completeness: Dray counts them over the whole pool, upstream only over the slices
// that reach the node when those look complete by themselves.
const DecisionWholePool = "0002"

// DecisionMixedGroups is the number of the decision on devices in use that draw
// from one counter set, some with and some without compatibility groups. What goes
// with them depends on their order; upstream's order depends on that of its input.
const DecisionMixedGroups = "0006"

// DecisionDefaults is the number of the decision on defaults that the rest of their policy does
// not allow: upstream tells apart how they are written.
const DecisionDefaults = "0062"

// Decision returns the number of the section in docs/decisions that makes Dray answer
// a case differently than upstream may do, or "" if none applies. That one applies
// does not mean that the answers differ.
func Decision(c *alloctest.Case) string {
	node := askedNode(c)
	if node == nil {
		return ""
	}
	decision := ""
	if slices.ContainsFunc(c.Slices, hasStrayDefault) {
		decision = DecisionDefaults
	}
	for _, pool := range poolSlices(c) {
		if judgedByReachableSlices(c.Features, pool, node) {
			return DecisionWholePool
		}
		if c.Features.CompatibilityGroups && mixesGroups(c, newest(pool)) {
			decision = DecisionMixedGroups
		}
	}
	return decision
}

type poolKey struct{ driver, name string }

func poolSlices(c *alloctest.Case) map[poolKey][]*resourceapi.ResourceSlice {
	pools := make(map[poolKey][]*resourceapi.ResourceSlice)
	for _, slice := range c.Slices {
		key := poolKey{slice.Spec.Driver, slice.Spec.Pool.Name}
		pools[key] = append(pools[key], slice)
	}
	return pools
}

// newest returns the slices of the highest generation.
func newest(pool []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var generation int64
	for _, slice := range pool {
		generation = max(generation, slice.Spec.Pool.Generation)
	}
	return slices.DeleteFunc(slices.Clone(pool), func(slice *resourceapi.ResourceSlice) bool {
		return slice.Spec.Pool.Generation < generation
	})
}

// mixesGroups tells whether devices in use draw from the same counter set of the pool
// and some declare compatibility groups, others none.
func mixesGroups(c *alloctest.Case, pool []*resourceapi.ResourceSlice) bool {
	type kind struct {
		counterSet string
		groups     bool
	}
	kinds := make(map[kind]bool)
	for _, slice := range pool {
		for _, device := range slice.Spec.Devices {
			for _, consumption := range device.ConsumesCounters {
				if !inUse(c, slice, device.Name) {
					continue
				}
				k := kind{consumption.CounterSet, len(consumption.CompatibilityGroups) > 0}
				kinds[k] = true
				if kinds[kind{k.counterSet, !k.groups}] {
					return true
				}
			}
		}
	}
	return false
}

func inUse(c *alloctest.Case, slice *resourceapi.ResourceSlice, device string) bool {
	for _, claim := range c.Allocated {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Driver == slice.Spec.Driver && result.Pool == slice.Spec.Pool.Name && result.Device == device &&
				!ptr.Deref(result.AdminAccess, false) {
				return true
			}
		}
	}
	return false
}

// hasStrayDefault tells whether the default of some capacity is not valid by the rest of its policy.
func hasStrayDefault(slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool {
		for _, capacity := range d.Capacity {
			if policy := capacity.RequestPolicy; policy != nil && policy.Default != nil && !allowed(*policy.Default, policy) {
				return true
			}
		}
		return false
	})
}

// allowed compares steps in thousandths, as the policies of cases are.
func allowed(q resource.Quantity, policy *resourceapi.CapacityRequestPolicy) bool {
	if r := policy.ValidRange; r != nil {
		return (r.Min == nil || q.Cmp(*r.Min) >= 0) && (r.Max == nil || q.Cmp(*r.Max) <= 0) &&
			(r.Min == nil || r.Step == nil || (q.MilliValue()-r.Min.MilliValue())%r.Step.MilliValue() == 0)
	}
	return len(policy.ValidValues) == 0 || slices.ContainsFunc(policy.ValidValues, func(v resource.Quantity) bool { return v.Cmp(q) == 0 })
}
