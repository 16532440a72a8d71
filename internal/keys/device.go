// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
	"github.com/dray-project/dray/internal/reads"
)

// Device writes what all questions read of a device, besides attributes and capacities. Counters are written by
// their position in the pool.
var Device = Writer[*pool.Device]{
	{Rows(reads.Device, "AllowMultipleAllocations"), func(k *memo.Key, d *pool.Device) { k.Flags(d.Multiple) }},
	{Rows(reads.Device, "ConsumesCounters[].CounterSet", "ConsumesCounters[].Counters[].Value"), appendUses},
	{Rows(reads.Device, "ConsumesCounters[].CompatibilityGroups[]"), appendGroups},
	{Rows(reads.Device, "BindingConditions[]"), func(k *memo.Key, d *pool.Device) { k.Flags(len(d.Object.BindingConditions) > 0) }},
	{Rows(reads.Device, "BindsToNode"), func(k *memo.Key, d *pool.Device) {
		local, selector := Reach(d)
		k.Flags(local, selector != nil && len(selector.NodeSelectorTerms) > 1)
	}},
	{Rows(reads.Slice, "Spec.SkipNodeOperations[]"), func(k *memo.Key, d *pool.Device) { k.Flags(len(d.Slice.Object.Spec.SkipNodeOperations) > 0) }},
	{nil, func(k *memo.Key, d *pool.Device) { AppendTaints(k, d.Object.Taints) }},
}

func appendUses(k *memo.Key, d *pool.Device) {
	k.Flags(d.ConsumesCounters)
	k.Number(len(d.Uses))
	for _, use := range d.Uses {
		k.Number(int(use.Counter))
		k.Amount(use.Amount)
	}
}

func appendGroups(k *memo.Key, d *pool.Device) {
	k.Number(len(d.Groups))
	for _, use := range d.Groups {
		k.Number(int(use.Set))
		k.Number(len(use.Groups))
		for _, group := range use.Groups {
			k.Text(group)
		}
	}
}

// Reach says where a device can be used: on one node (local), on nodes that a selector matches, or everywhere
// if there is neither.
func Reach(d *pool.Device) (local bool, selector *corev1.NodeSelector) {
	if d.Plain {
		return true, nil
	}
	spec := &d.Slice.Object.Spec
	name, selector := spec.NodeName, spec.NodeSelector
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		name, selector = d.Object.NodeName, d.Object.NodeSelector
	}
	return name != nil || ptr.Deref(d.Object.BindsToNode, false), selector
}

// Taint writes what is read of a taint of a device. Allocation does not read the time at which it was added.
var Taint = Writer[*resourceapi.DeviceTaint]{
	{Rows(reads.Device, "Taints[].Key"), func(k *memo.Key, t *resourceapi.DeviceTaint) { k.Text(t.Key) }},
	{Rows(reads.Device, "Taints[].Value"), func(k *memo.Key, t *resourceapi.DeviceTaint) { k.Text(t.Value) }},
	{Rows(reads.Device, "Taints[].Effect"), func(k *memo.Key, t *resourceapi.DeviceTaint) { k.Text(string(t.Effect)) }},
}

// AppendTaints appends taints in their order.
func AppendTaints(k *memo.Key, taints []resourceapi.DeviceTaint) {
	k.Number(len(taints))
	for i := range taints {
		Taint.Append(k, &taints[i])
	}
}

// Pool writes what is read of a pool besides its devices.
var Pool = Writer[*pool.Pool]{
	{Rows(reads.Slice, "Spec.SharedCounters[].Name", "Spec.SharedCounters[].Counters[].Value"), func(k *memo.Key, p *pool.Pool) {
		k.Number(len(p.Counters))
		for i := range p.Counters {
			k.Amount(p.Counters[i].Total)
		}
	}},
}

// Node writes what is read of a node besides its devices.
var Node = Writer[*corev1.Node]{
	{Rows(reads.Node, "Status.DeclaredFeatures[]"), func(k *memo.Key, n *corev1.Node) { k.Flags(OperatesOptionally(n)) }},
}

// OperatesOptionally reports whether a node declares that it can skip node operations.
func OperatesOptionally(node *corev1.Node) bool {
	return slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

// Capacity writes what is read of a capacity: all that decides what a share consumes.
var Capacity = Writer[*resourceapi.DeviceCapacity]{
	{Rows(reads.Device, "Capacity[].Value"), func(k *memo.Key, c *resourceapi.DeviceCapacity) { AppendQuantity(k, &c.Value) }},
	{nil, func(k *memo.Key, c *resourceapi.DeviceCapacity) {
		k.Flags(c.RequestPolicy != nil, c.RequestPolicy != nil && c.RequestPolicy.ValidRange != nil)
	}},
	{Rows(reads.Device, "Capacity[].RequestPolicy.Default"), ofPolicy(func(k *memo.Key, p *resourceapi.CapacityRequestPolicy) {
		AppendQuantity(k, p.Default)
	})},
	{Rows(reads.Device, "Capacity[].RequestPolicy.ValidValues[]"), ofPolicy(func(k *memo.Key, p *resourceapi.CapacityRequestPolicy) {
		k.Number(len(p.ValidValues))
		for i := range p.ValidValues {
			AppendQuantity(k, &p.ValidValues[i])
		}
	})},
	{Rows(reads.Device, "Capacity[].RequestPolicy.ValidRange.Min"), ofRange(func(r *resourceapi.CapacityRequestPolicyRange) *resource.Quantity { return r.Min })},
	{Rows(reads.Device, "Capacity[].RequestPolicy.ValidRange.Max"), ofRange(func(r *resourceapi.CapacityRequestPolicyRange) *resource.Quantity { return r.Max })},
	{Rows(reads.Device, "Capacity[].RequestPolicy.ValidRange.Step"), ofRange(func(r *resourceapi.CapacityRequestPolicyRange) *resource.Quantity { return r.Step })},
}

func ofPolicy(write func(k *memo.Key, p *resourceapi.CapacityRequestPolicy)) func(k *memo.Key, c *resourceapi.DeviceCapacity) {
	return func(k *memo.Key, c *resourceapi.DeviceCapacity) {
		if c.RequestPolicy != nil {
			write(k, c.RequestPolicy)
		}
	}
}

func ofRange(get func(*resourceapi.CapacityRequestPolicyRange) *resource.Quantity) func(k *memo.Key, c *resourceapi.DeviceCapacity) {
	return ofPolicy(func(k *memo.Key, p *resourceapi.CapacityRequestPolicy) {
		if p.ValidRange != nil {
			AppendQuantity(k, get(p.ValidRange))
		}
	})
}

// AppendCapacities appends capacities by name.
func AppendCapacities(k *memo.Key, all map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) {
	if k.Number(len(all)); len(all) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		k.Text(string(name))
		c := all[name]
		Capacity.Append(k, &c)
	}
}

// AppendQuantity appends a number and its format. Nil differs from all numbers.
func AppendQuantity(k *memo.Key, q *resource.Quantity) {
	if k.Flags(q != nil); q != nil {
		k.Amount(quantity.Amount(*q))
		k.Text(string(q.Format))
	}
}
