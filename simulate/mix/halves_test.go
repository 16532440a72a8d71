// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// list lets a pod ask for one GPU more than a number, or else for that number, at least one.
func (l *lab) list(pod *corev1.Pod, gpus int) {
	name := fmt.Sprint("list-", max(1, gpus))
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
	request := resourceapi.DeviceRequest{Name: "gpu"}
	for i, count := range []int64{int64(max(1, gpus)) + 1, int64(max(1, gpus))} {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("choice-", i), DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		})
	}
	l.addTemplate(name, request)
}

// half lets a pod ask for half a GPU.
func (l *lab) half(pod *corev1.Pod) {
	name := "half"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
	l.addTemplate(name, resourceapi.DeviceRequest{Name: "half", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "half", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}})
}

func (l *lab) addTemplate(name string, request resourceapi.DeviceRequest) {
	if slices.ContainsFunc(l.Templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Name == name }) {
		return
	}
	made := &resourceapi.ResourceClaimTemplate{}
	made.Namespace, made.Name = "default", name
	made.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{request}
	l.Templates = append(l.Templates, made)
}

// divide gives each GPU two halves, which share its counter. The class of GPUs has whole ones only.
func (l *lab) divide() {
	half := &resourceapi.DeviceClass{}
	half.Name = "half"
	half.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `"half" in device.attributes["gpu.example.com"]`}}}
	l.Classes[0].Spec.Selectors[0].CEL.Expression += ` && !("half" in device.attributes["gpu.example.com"])`
	l.Classes = append(l.Classes, half)
	l.Slices = withHalves(l.Slices)
	for i := range l.specs {
		l.specs[i].Slices = withHalves(l.specs[i].Slices)
	}
}

func withHalves(list []*resourceapi.ResourceSlice) (all []*resourceapi.ResourceSlice) {
	halves := func(set string, n int64) []resourceapi.DeviceCounterConsumption {
		return []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{"halves": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}}}
	}
	for _, slice := range list {
		all = append(all, slice)
		if slice.Spec.Driver != "gpu.example.com" {
			continue
		}
		counters := slice.DeepCopy()
		counters.Name, counters.Spec.Devices = slice.Name+"-counters", nil
		var devices []resourceapi.Device
		for _, gpu := range slice.Spec.Devices {
			counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: gpu.Name, Counters: halves(gpu.Name, 2)[0].Counters})
			gpu.ConsumesCounters = halves(gpu.Name, 2)
			devices = append(devices, gpu)
			for i := range 2 {
				part := *gpu.DeepCopy()
				part.Name, part.ConsumesCounters = fmt.Sprintf("%s-%d", gpu.Name, i), halves(gpu.Name, 1)
				part.Attributes["half"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
				devices = append(devices, part)
			}
		}
		slice.Spec.Devices = devices
		slice.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
		all = append(all, counters)
	}
	return all
}
