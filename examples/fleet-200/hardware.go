// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	gpuClass  = "gpu.example.com"
	nicClass  = "rdma-nic"
)

// kind is a kind of node.
type kind struct {
	name   string
	count  int
	model  string
	memory string
	gpus   int // half of them on each of two NUMA nodes
	nics   int // likewise
	// leastTaken is the minimum number of GPUs in use per NUMA node.
	leastTaken int
	// cordonedEvery cordons every n-th node.
	cordonedEvery int
}

var kinds = []kind{
	{name: "l40s", count: 50, model: "L40S", memory: "48Gi", gpus: 4, leastTaken: 1},
	{name: "a100", count: 60, model: "A100", memory: "80Gi", gpus: 8, nics: 2, leastTaken: 2, cordonedEvery: 20},
	{name: "h100", count: 70, model: "H100", memory: "80Gi", gpus: 8, nics: 4, leastTaken: 1},
	{name: "cpu", count: 20},
}

func slice(driver, node string, devices []resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node), Devices: devices,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

func gpuSlice(k kind, node string, number int) *resourceapi.ResourceSlice {
	var devices []resourceapi.Device
	for g := range k.gpus {
		devices = append(devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", g),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": attribute(k.model),
				"numa":  attribute(int64(g / (k.gpus / 2))),
				"uuid":  attribute(fmt.Sprintf("GPU-%s-%03d-%d", k.name, number, g)),
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(k.memory)}},
		})
	}
	return slice(gpuDriver, node, devices)
}

func nicSlice(k kind, node string) *resourceapi.ResourceSlice {
	var devices []resourceapi.Device
	for n := range k.nics {
		devices = append(devices, resourceapi.Device{
			Name: fmt.Sprintf("nic-%d", n),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"rdma":                 attribute(k.model == "H100"),
				"gpu.example.com/numa": attribute(int64(n / (k.nics / 2))),
			},
		})
	}
	return slice(nicDriver, node, devices)
}

func (f *fleet) addClasses() {
	f.addClass(gpuClass, `device.driver == "gpu.example.com"`)
	f.addClass(nicClass, `device.driver == "nic.example.com" && device.attributes["nic.example.com"].rdma`)
}

func (f *fleet) addClass(name, expression string) {
	f.classes = append(f.classes, &resourceapi.DeviceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "DeviceClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
		},
	})
}
