// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package given has fixtures for the tests of the index: API objects with one option for each property.
package given

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Driver is the driver of slices and claims, unless an option sets another one.
const Driver = "gpu.example.com"

// SliceOption changes a slice fixture.
type SliceOption func(*resourceapi.ResourceSlice)

// Slice returns the only slice of a pool, with generation 1. It reaches no node unless an option says so.
func Slice(name, pool string, options ...SliceOption) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: Driver,
			Pool:   resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// DrivenBy sets the driver.
func DrivenBy(name string) SliceOption {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Driver = name }
}

// Generation sets the generation of the pool and its number of slices.
func Generation(generation, count int64) SliceOption {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, count
	}
}

// Count sets the number of slices of the pool.
func Count(count int64) SliceOption { return Generation(1, count) }

// OnNode makes a slice reach one node.
func OnNode(name string) SliceOption {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = &name }
}

// Everywhere makes a slice reach all nodes.
func Everywhere(s *resourceapi.ResourceSlice) { s.Spec.AllNodes = ptr.To(true) }

// Selecting makes a slice reach the nodes that a selector matches.
func Selecting(selector *corev1.NodeSelector) SliceOption {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeSelector = selector }
}

// PerDevice sets perDeviceNodeSelection.
func PerDevice(s *resourceapi.ResourceSlice) { s.Spec.PerDeviceNodeSelection = ptr.To(true) }

// Devices adds devices with only a name.
func Devices(names ...string) SliceOption {
	return func(s *resourceapi.ResourceSlice) {
		for _, name := range names {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name})
		}
	}
}

// Device adds a device.
func Device(name string, options ...func(*resourceapi.Device)) SliceOption {
	d := resourceapi.Device{Name: name}
	for _, option := range options {
		option(&d)
	}
	return func(s *resourceapi.ResourceSlice) { s.Spec.Devices = append(s.Spec.Devices, d) }
}

// DeviceOnNode makes a device reach one node.
func DeviceOnNode(name string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.NodeName = &name }
}

// DeviceSelecting makes a device reach the nodes that a selector matches.
func DeviceSelecting(selector *corev1.NodeSelector) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.NodeSelector = selector }
}

// Binding adds binding conditions.
func Binding(conditions ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) { d.BindingConditions = append([]string{}, conditions...) }
}

// Consumes draws on the counter "memory" of a set, in compatibility groups.
func Consumes(set, amount string, groups ...string) func(*resourceapi.Device) {
	return ConsumesCounter(set, "memory", amount, groups...)
}

// ConsumesCounter draws on a counter of a set, in compatibility groups.
func ConsumesCounter(set, counter, amount string, groups ...string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{
			CounterSet:          set,
			Counters:            map[string]resourceapi.Counter{counter: {Value: resource.MustParse(amount)}},
			CompatibilityGroups: groups,
		})
	}
}

// Attribute sets an attribute.
func Attribute(name resourceapi.QualifiedName, value resourceapi.DeviceAttribute) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		if d.Attributes == nil {
			d.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
		}
		d.Attributes[name] = value
	}
}

// Capacity sets a capacity.
func Capacity(name resourceapi.QualifiedName, value string) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		if d.Capacity == nil {
			d.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
		}
		d.Capacity[name] = resourceapi.DeviceCapacity{Value: resource.MustParse(value)}
	}
}

// Multiple sets allowMultipleAllocations.
func Multiple(d *resourceapi.Device) { d.AllowMultipleAllocations = ptr.To(true) }

// CounterSet adds a counter set with the counter "memory".
func CounterSet(name, memory string) SliceOption {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{
			Name:     name,
			Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}},
		})
	}
}

// InZone selects nodes by the label "zone".
func InZone(values ...string) *corev1.NodeSelector {
	return NodeSelector("zone", corev1.NodeSelectorOpIn, values...)
}

// NodeSelector selects nodes by one label.
func NodeSelector(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
	}}}
}

// Unparsable is a selector with an operator that does not exist.
func Unparsable() *corev1.NodeSelector { return NodeSelector("zone", "Near", "a") }

// Node returns a node with labels, given as keys and values in turn.
func Node(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		node.Labels[labels[i]] = labels[i+1]
	}
	return node
}

// ClaimOption changes a result of the allocation of a claim.
type ClaimOption func(*resourceapi.DeviceRequestAllocationResult)

// Claim returns a claim to which devices of pool "p" of the test driver are allocated. With the option Share
// they are shares.
func Claim(name string, device []string, options ...ClaimOption) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
	}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range device {
		result := resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: Driver, Pool: "p", Device: d}
		for _, option := range options {
			option(&result)
		}
		results := &claim.Status.Allocation.Devices.Results
		*results = append(*results, result)
	}
	return claim
}

// Share makes a result a share.
func Share(id, bandwidth string) ClaimOption {
	return func(r *resourceapi.DeviceRequestAllocationResult) {
		r.ShareID = ptr.To(types.UID(id))
		if bandwidth != "" {
			r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(bandwidth)}
		}
	}
}

// InPool sets the pool of a result.
func InPool(pool string) ClaimOption {
	return func(r *resourceapi.DeviceRequestAllocationResult) { r.Pool = pool }
}

// Admin makes a result admin access.
func Admin(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }

// PartitionedPool has two GPUs with 8 of memory each. Device a takes 5 of gpu-0 (group x or y), b takes 4
// (group y), and c takes 3 (no groups). Device d takes 2 of both GPUs.
func PartitionedPool() []*resourceapi.ResourceSlice {
	return []*resourceapi.ResourceSlice{
		Slice("s1", "p", Count(3), OnNode("worker"),
			Device("a", Consumes("gpu-0", "5", "y", "x", "x")),
			Device("b", Consumes("gpu-0", "4", "y"))),
		Slice("s2", "p", Count(3), OnNode("other"),
			Device("c", Consumes("gpu-0", "3")),
			Device("d", Consumes("gpu-1", "2"), Consumes("gpu-0", "2"))),
		Slice("s3", "p", Count(3), OnNode("other"), CounterSet("gpu-1", "8"), CounterSet("gpu-0", "8")),
	}
}
