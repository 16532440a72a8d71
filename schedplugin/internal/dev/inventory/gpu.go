// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// GPU is a device with the attributes model and numa, and the capacity memory.
func GPU(name, model string, numa int64, memory string) resourceapi.Device {
	return resourceapi.Device{
		Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: ptr.To(model)},
			"numa":  {IntValue: ptr.To(numa)},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse(memory)},
		},
	}
}

// GPUs are gpu-0, gpu-1 and so on, the first half of them at NUMA node 0 and the other at 1.
func GPUs(count int, model, memory string) []resourceapi.Device {
	devices := make([]resourceapi.Device, count)
	for i := range devices {
		devices[i] = GPU(fmt.Sprintf("gpu-%d", i), model, int64(2*i/count), memory)
	}
	return devices
}

// Shareable lets several claims have a part of the device's memory each.
func Shareable(device resourceapi.Device) resourceapi.Device {
	device.AllowMultipleAllocations = ptr.To(true)
	return device
}
