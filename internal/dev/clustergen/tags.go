// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// Tag names something that a case exercises.
type Tag string

// AllTags returns every tag, in the order of the distribution table.
func AllTags() []Tag { return slices.Concat(allTags, oddTags) }

// The features that small cases combine.
const (
	SharesWithCapacity    Tag = "shares with capacity"
	SharesWithoutCapacity Tag = "shares without capacity"
	Counters              Tag = "partitionable devices"
	CompatibilityGroups   Tag = "compatibility groups"
	Taints                Tag = "taints"
	AdminAccess           Tag = "admin access"
	PrioritizedList       Tag = "prioritized list"
	AllDevices            Tag = "all devices"
	MatchAttribute        Tag = "match attribute"
	DistinctAttribute     Tag = "distinct attribute"
	ListAttributes        Tag = "list attributes"
	DerivedAttributes     Tag = "derived attributes"
	BindingConditions     Tag = "binding conditions"
	PerDeviceNodes        Tag = "per-device nodes"
	FailingSelectors      Tag = "failing expressions"
	SeveralClaims         Tag = "several claims"
	DevicesInUse          Tag = "devices in use"
	SeveralPools          Tag = "several pools"
)

// allTags are the features first, then the situations.
var allTags = []Tag{
	AdminAccess, CompatibilityGroups, SharesWithCapacity, SharesWithoutCapacity, "fractional range", DerivedAttributes,
	BindingConditions, "binds to node", Taints, "tolerations", ListAttributes, "node operations",
	Counters, PerDeviceNodes, "multi-host", PrioritizedList,
	"exact count", AllDevices, "class selectors", "request selectors", FailingSelectors, MatchAttribute, DistinctAttribute,
	"constraint on subrequest", "constraint over drivers", "class config", "claim config", "config of subrequest",
	"node-local pool", "all-nodes pool", "node-selector pool",
	"several drivers", SeveralPools, "several slices", SeveralClaims, "several requests",
	DevicesInUse, "shares in use", "admin access in use", "vanished device in use", "capacity requests",
	"incomplete pool", "stale slices", "equal device names", "slice without nodes", "near device limit", "gates off",
}

// tagger collects the tags of one case.
type tagger map[Tag]bool

// Tags returns what a case exercises, in the order of AllTags.
func Tags(c *alloctest.Case) []Tag {
	t := make(tagger)
	t.set("gates off", c.Features != allocator.AllFeatures())
	t.set(SeveralClaims, len(c.Claims) > 1)
	t.pools(c)
	for _, slice := range c.Slices {
		t.slice(slice)
	}
	for _, class := range c.Classes {
		t.set("class config", len(class.Spec.Config) > 0)
	}
	for _, claim := range c.Allocated {
		t.allocated(c, claim)
	}
	for _, claim := range c.Claims {
		t.claim(claim)
	}
	t.oddities(c)
	return slices.DeleteFunc(AllTags(), func(tag Tag) bool { return !t[tag] })
}

func (t tagger) set(tag Tag, used bool) {
	if used {
		t[tag] = true
	}
}

func (t tagger) pools(c *alloctest.Case) {
	drivers := make(map[string]bool)
	pools := poolSlices(c)
	for key, slices := range pools {
		drivers[key.driver] = true
		t.pool(slices)
	}
	t.set("several drivers", len(drivers) > 1)
	t.set(SeveralPools, len(pools) > 1)
}

func (t tagger) pool(pool []*resourceapi.ResourceSlice) {
	generations := make(map[int64]int64)
	names := make(map[string]bool)
	counters, perDevice := false, false
	for _, slice := range pool {
		generations[slice.Spec.Pool.Generation]++
		counters = counters || len(slice.Spec.SharedCounters) > 0
		perDevice = perDevice || ptr.Deref(slice.Spec.PerDeviceNodeSelection, false)
		for _, device := range slice.Spec.Devices {
			t.set("equal device names", len(generations) == 1 && names[device.Name])
			names[device.Name] = true
		}
	}
	for _, slice := range pool {
		t.set("incomplete pool", generations[slice.Spec.Pool.Generation] < slice.Spec.Pool.ResourceSliceCount)
	}
	t.set("several slices", len(pool) > 1)
	t.set("stale slices", len(generations) > 1)
	t.set("multi-host", counters && perDevice)
}

func (t tagger) slice(slice *resourceapi.ResourceSlice) {
	spec := &slice.Spec
	perDevice := ptr.Deref(spec.PerDeviceNodeSelection, false)
	t.set(PerDeviceNodes, perDevice)
	t.set("node-local pool", spec.NodeName != nil)
	t.set("all-nodes pool", ptr.Deref(spec.AllNodes, false))
	t.set("node-selector pool", spec.NodeSelector != nil)
	t.set("slice without nodes", spec.NodeName == nil && spec.AllNodes == nil && spec.NodeSelector == nil && !perDevice)
	t.set("node operations", len(spec.SkipNodeOperations) > 0)
	for i := range spec.Devices {
		t.device(&spec.Devices[i])
	}
}

func (t tagger) device(device *resourceapi.Device) {
	t.set(Taints, len(device.Taints) > 0)
	t.set(BindingConditions, len(device.BindingConditions) > 0)
	t.set("binds to node", ptr.Deref(device.BindsToNode, false))
	shared := ptr.Deref(device.AllowMultipleAllocations, false)
	t.set(SharesWithCapacity, shared && len(device.Capacity) > 0)
	t.set(SharesWithoutCapacity, shared && len(device.Capacity) == 0)
	t.set(Counters, len(device.ConsumesCounters) > 0)
	for _, consumption := range device.ConsumesCounters {
		t.set(CompatibilityGroups, len(consumption.CompatibilityGroups) > 0)
	}
	for _, attribute := range device.Attributes {
		t.set(ListAttributes, len(attribute.IntValues)+len(attribute.BoolValues)+
			len(attribute.StringValues)+len(attribute.VersionValues) > 0)
	}
	for _, capacity := range device.Capacity {
		t.set("fractional range", fractional(capacity.RequestPolicy))
	}
}

func fractional(policy *resourceapi.CapacityRequestPolicy) bool {
	if policy == nil || policy.ValidRange == nil {
		return false
	}
	limits := policy.ValidRange
	return limits.Min.MilliValue()%1000 != 0 || limits.Step != nil && limits.Step.MilliValue()%1000 != 0
}

func (t tagger) allocated(c *alloctest.Case, claim *resourceapi.ResourceClaim) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		t.set(DevicesInUse, true)
		t.set("shares in use", result.ShareID != nil)
		t.set("admin access in use", ptr.Deref(result.AdminAccess, false))
		t.set("vanished device in use", !published(c, result))
	}
}

func published(c *alloctest.Case, result resourceapi.DeviceRequestAllocationResult) bool {
	return slices.ContainsFunc(c.Slices, func(slice *resourceapi.ResourceSlice) bool {
		return slice.Spec.Driver == result.Driver && slice.Spec.Pool.Name == result.Pool &&
			slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == result.Device })
	})
}
