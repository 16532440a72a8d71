// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// quarters is how many of the smallest partitions make up a GPU.
const quarters = 4

// Partitionable are the slices of a pool of GPUs that can be used whole, in halves or in
// quarters, each of which is a device with the attribute profile: gpu-0, gpu-0-half-1,
// gpu-0-quarter-3. Counters see to it that no more is used than there is.
func Partitionable(driver, node string, gpus int, model string) []*resourceapi.ResourceSlice {
	counters := Slice(driver, node)
	devices := Slice(driver, node)
	for i := range gpus {
		gpu := fmt.Sprintf("gpu-%d", i)
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name:     gpu,
			Counters: map[string]resourceapi.Counter{"quarters": counter(quarters)},
		})
		devices.Spec.Devices = append(devices.Spec.Devices, partitions(gpu, model)...)
	}
	slices := []*resourceapi.ResourceSlice{counters, devices}
	for i, slice := range slices {
		slice.Name += fmt.Sprintf("-%d", i)
		slice.Spec.Pool.ResourceSliceCount = int64(len(slices))
	}
	return slices
}

func partitions(gpu, model string) []resourceapi.Device {
	devices := []resourceapi.Device{partition(gpu, gpu, model, "whole", quarters)}
	for i := range 2 {
		devices = append(devices, partition(fmt.Sprintf("%s-half-%d", gpu, i), gpu, model, "half", 2))
	}
	for i := range quarters {
		devices = append(devices, partition(fmt.Sprintf("%s-quarter-%d", gpu, i), gpu, model, "quarter", 1))
	}
	return devices
}

func partition(name, gpu, model, profile string, size int64) resourceapi.Device {
	device := GPU(name, model, 0, fmt.Sprintf("%dGi", 20*size))
	device.Attributes["profile"] = resourceapi.DeviceAttribute{StringValue: ptr.To(profile)}
	device.Attributes["parent"] = resourceapi.DeviceAttribute{StringValue: ptr.To(gpu)}
	device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
		CounterSet: gpu,
		Counters:   map[string]resourceapi.Counter{"quarters": counter(size)},
	}}
	return device
}

func counter(value int64) resourceapi.Counter {
	return resourceapi.Counter{Value: *resource.NewQuantity(value, resource.DecimalSI)}
}
