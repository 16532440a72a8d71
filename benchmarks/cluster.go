// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// cluster builds the objects of a case. The question is about its first node.
type cluster struct{ *alloctest.Case }

func newCluster(name string) cluster {
	return cluster{&alloctest.Case{Name: name, Features: allocator.AllFeatures()}}
}

func (c cluster) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	c.Nodes = append(c.Nodes, node)
	c.Node = c.Nodes[0].Name
	return node
}

func (c cluster) class(name, expression string) {
	c.Classes = append(c.Classes, &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: selecting(expression)},
	})
}

// pool adds a pool of a driver on a node, as one slice.
func (c cluster) pool(driver, node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", node, driver)},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   driver,
			NodeName: &node,
			Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices:  devices,
		},
	}
	c.Slices = append(c.Slices, slice)
	return slice
}

// claim adds a pending claim.
func (c cluster) claim(name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	claim := newClaim(name, requests...)
	c.Claims = append(c.Claims, claim)
	return claim
}

// running adds an allocated claim that holds devices of a pool.
func (c cluster) running(driver, pool string, devices ...string) {
	claim := newClaim(fmt.Sprintf("running-%d", len(c.Allocated)))
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "running", Driver: driver, Pool: pool, Device: device})
	}
	c.Allocated = append(c.Allocated, claim)
}

func newClaim(name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

// request returns a request for a number of devices of a class.
func request(name, class string, count int64, expressions ...string) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class,
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           count,
		Selectors:       selecting(expressions...),
	}}
}

// requests returns n requests for one device each, named after the class.
func requests(n int, class string, expressions ...string) []resourceapi.DeviceRequest {
	var all []resourceapi.DeviceRequest
	for i := range n {
		all = append(all, request(fmt.Sprintf("%s-%d", class, i), class, 1, expressions...))
	}
	return all
}

// alternatives returns a request with a prioritized list, each entry for one device.
func alternatives(name, class string, expressions ...string) resourceapi.DeviceRequest {
	list := resourceapi.DeviceRequest{Name: name}
	for i, expression := range expressions {
		list.FirstAvailable = append(list.FirstAvailable, resourceapi.DeviceSubRequest{
			Name:            fmt.Sprintf("choice-%d", i),
			DeviceClassName: class,
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           1,
			Selectors:       selecting(expression),
		})
	}
	return list
}

func selecting(expressions ...string) []resourceapi.DeviceSelector {
	var selectors []resourceapi.DeviceSelector
	for _, expression := range expressions {
		selectors = append(selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return selectors
}

// matching adds a constraint that an attribute is equal on the devices of the requests, or of all
// requests.
func matching(claim *resourceapi.ResourceClaim, attribute string, requests ...string) {
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
		MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)), Requests: requests,
	})
}

// differing adds a constraint that an attribute is distinct on the devices of the requests, or of
// all requests.
func differing(claim *resourceapi.ResourceClaim, attribute string, requests ...string) {
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
		DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)), Requests: requests,
	})
}

// deviceOption sets something of a device.
type deviceOption func(*resourceapi.Device)

func newDevice(name string, options ...deviceOption) resourceapi.Device {
	d := resourceapi.Device{
		Name:       name,
		Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute),
		Capacity:   make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity),
	}
	for _, option := range options {
		option(&d)
	}
	return d
}

// devices returns n devices, dev-0 to dev-(n-1).
func devices(n int, options ...func(i int) deviceOption) []resourceapi.Device {
	var all []resourceapi.Device
	for i := range n {
		d := newDevice(fmt.Sprintf("dev-%d", i))
		for _, option := range options {
			option(i)(&d)
		}
		all = append(all, d)
	}
	return all
}

// attribute sets a string attribute, or a list of strings.
func attribute(name string, values ...string) deviceOption {
	return func(d *resourceapi.Device) {
		if len(values) == 1 {
			d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: &values[0]}
			return
		}
		d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValues: values}
	}
}

func version(name, value string) deviceOption {
	return func(d *resourceapi.Device) {
		d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{VersionValue: &value}
	}
}

func number(name string, value int64) deviceOption {
	return func(d *resourceapi.Device) {
		d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{IntValue: &value}
	}
}

func boolean(name string, value bool) deviceOption {
	return func(d *resourceapi.Device) {
		d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{BoolValue: &value}
	}
}

func capacity(name, quantity string) deviceOption {
	return func(d *resourceapi.Device) {
		d.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: resource.MustParse(quantity)}
	}
}

// shared permits multiple allocations of a device (KEP-5075).
func shared(d *resourceapi.Device) { d.AllowMultipleAllocations = ptr.To(true) }

// consuming adds the consumption of a counter (KEP-4815).
func consuming(set, counter, quantity string) deviceOption {
	return func(d *resourceapi.Device) {
		d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{
			CounterSet: set, Counters: map[string]resourceapi.Counter{counter: {Value: resource.MustParse(quantity)}},
		})
	}
}

// hostname returns a selector for one node.
func hostname(node string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}}}
}
