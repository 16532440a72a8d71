// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const driver = "perf.dray.dev"

// fleet is a cluster of equal nodes, and the claims of pods to be scheduled there.
type fleet struct {
	name  string
	nodes int
	// slices are what a node publishes, with the units that serve the claims.
	slices func(node, units string) []*resourceapi.ResourceSlice
	units  string
	// used are the devices of each node that are in use.
	used []string
	// wanted is what each pod asks for.
	wanted resourceapi.DeviceClaim
	// fits says whether a pod fits every node, or none.
	fits bool
}

// manyNodes is a large cluster.
const manyNodes = 5000

// single has one accelerator in each unit.
const single = "0;1;2;3;4;5;6;7;8;9"

var fleets = []fleet{
	{name: "empty", nodes: manyNodes, slices: accelerators, units: single, wanted: accelerator(1), fits: true},
	{name: "half", nodes: manyNodes, slices: accelerators, units: single, used: numbered("accelerator-", 0, 5), wanted: accelerator(1), fits: true},
	{name: "full", nodes: manyNodes, slices: accelerators, units: single, used: numbered("accelerator-", 0, 10), wanted: accelerator(1)},
	{name: "selector", nodes: manyNodes, slices: accelerators, units: single, wanted: selecting(accelerator(1)), fits: true},
	{name: "match", nodes: manyNodes, slices: accelerators, units: "0,2,4,6,8;1,3,5,7,9", wanted: matching(accelerator(5)), fits: true},
	{name: "backtracking", nodes: manyNodes, slices: partitions, units: "1-7", wanted: accelerator(7), fits: true},
}

func numbered(prefix string, from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names
}

func accelerator(count int64) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "accelerator",
		Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "accelerator", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		},
	}}}
}

func selecting(claim resourceapi.DeviceClaim) resourceapi.DeviceClaim {
	claim.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["perf.dray.dev"].firmware.major() >= 5 && device.capacity["perf.dray.dev"].memory.isGreaterThan(quantity("40Gi"))`,
	}}}
	return claim
}

func matching(claim resourceapi.DeviceClaim) resourceapi.DeviceClaim {
	claim.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("resource.kubernetes.io/pciRoot"))}}
	return claim
}

func sliceOf(node, name, units string, count int64) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + name, Annotations: map[string]string{unitsAnnotation: units}},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: count},
		},
	}
}

// accelerators are ten devices on two PCIe roots.
func accelerators(node, units string) []*resourceapi.ResourceSlice {
	slice := sliceOf(node, "accelerators", units, 1)
	for i := range 10 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("accelerator-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"uuid":                            {StringValue: ptr.To(fmt.Sprintf("%s-%d", node, i))},
				"model":                           {StringValue: ptr.To("A1000")},
				"firmware":                        {VersionValue: ptr.To("5.2.0")},
				"index":                           {IntValue: ptr.To(int64(i))},
				"healthy":                         {BoolValue: ptr.To(true)},
				"resource.kubernetes.io/pciRoot":  {StringValue: ptr.To(fmt.Sprintf("pci0000:0%d", i%2))},
				"resource.kubernetes.io/pciBusID": {StringValue: ptr.To(fmt.Sprintf("0000:0%d:0%d.0", i%2, i))},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return []*resourceapi.ResourceSlice{slice}
}

// partitions are eight devices, of which the first needs so much memory that only the other
// seven can be used together.
func partitions(node, units string) []*resourceapi.ResourceSlice {
	counters, devices := sliceOf(node, "counters", "", 2), sliceOf(node, "partitions", units, 2)
	slices := resourceapi.CounterSet{Name: "slices", Counters: make(map[string]resourceapi.Counter)}
	for i := range 8 {
		name := fmt.Sprintf("slice-%d", i)
		slices.Counters[name] = resourceapi.Counter{Value: resource.MustParse("1")}
		memory := resource.MustParse("10Gi")
		if i == 0 {
			memory = resource.MustParse("20Gi")
		}
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("partition-%d", i),
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{
				{CounterSet: "memory", Counters: map[string]resourceapi.Counter{"bytes": {Value: memory}}},
				{CounterSet: "slices", Counters: map[string]resourceapi.Counter{name: {Value: resource.MustParse("1")}}},
			},
		})
	}
	counters.Spec.SharedCounters = []resourceapi.CounterSet{
		{Name: "memory", Counters: map[string]resourceapi.Counter{"bytes": {Value: resource.MustParse("70Gi")}}}, slices,
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// objects are what the API server has, with claims for pods to be scheduled.
func (f *fleet) objects(pods int) []runtime.Object {
	objects := []runtime.Object{&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "accelerator"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "perf.dray.dev"`},
		}}},
	}}
	for i := range f.nodes {
		for _, slice := range f.slices(nodeName(i), f.units) {
			objects = append(objects, slice)
		}
		if len(f.used) > 0 {
			objects = append(objects, f.usedOn(nodeName(i)))
		}
	}
	for i := range pods {
		objects = append(objects, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: podName(i), UID: types.UID(podName(i)), ResourceVersion: "1"},
			Spec:       resourceapi.ResourceClaimSpec{Devices: f.wanted},
		})
	}
	return objects
}

// usedOn is a claim that has what is in use on a node.
func (f *fleet) usedOn(node string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "used-" + node, UID: types.UID("used-" + node), ResourceVersion: "1"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: accelerator(int64(len(f.used)))},
		Status:     resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}},
	}
	for _, device := range f.used {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "accelerator", Driver: driver, Pool: node, Device: device,
		})
	}
	return claim
}

func podName(i int) string { return fmt.Sprintf("pod-%d", i) }

// pod has the claim of its name.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: podName(i), UID: types.UID("of-" + podName(i))},
		Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{
			Name: "devices", ResourceClaimName: ptr.To(podName(i)),
		}}},
	}
}
