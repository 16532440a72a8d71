// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// SetDefaults sets the defaults of the API server that affect allocation.
func SetDefaults(object runtime.Object) {
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		setRequestDefaults(object.Spec.Devices.Requests)
		if allocation := object.Status.Allocation; allocation != nil {
			for i := range allocation.Devices.Results {
				setTolerationDefaults(allocation.Devices.Results[i].Tolerations)
			}
		}
	case *resourceapi.ResourceClaimTemplate:
		setRequestDefaults(object.Spec.Spec.Devices.Requests)
	case *corev1.Node:
		if object.Status.Allocatable == nil {
			object.Status.Allocatable = object.Status.Capacity
		}
	case *corev1.Pod:
		setPodDefaults(&object.Spec)
	case *v1alpha1.DevicePool:
		v1alpha1.SetPoolDefaults(object)
	case *v1alpha1.DeviceClaim:
		v1alpha1.SetClaimDefaults(object)
	}
}

// setPodDefaults sets missing requests of containers to their limits, and those of the pod as a whole
// to what its containers request, or to its limits.
func setPodDefaults(pod *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			setMissing(&containers[i].Resources.Requests, containers[i].Resources.Limits, anyResource)
		}
	}
	if pod.Resources == nil || len(pod.Resources.Requests)+len(pod.Resources.Limits) == 0 {
		return
	}
	ofContainers := podresources.AggregateContainerRequests(&corev1.Pod{Spec: *pod}, podresources.PodResourcesOptions{})
	setMissing(&pod.Resources.Requests, ofContainers, podresources.IsSupportedPodLevelResource)
	setMissing(&pod.Resources.Requests, pod.Resources.Limits, podresources.IsSupportedPodLevelResource)
}

func anyResource(corev1.ResourceName) bool { return true }

// setMissing adds the defaults of resources that a list lacks and that may be in it.
func setMissing(list *corev1.ResourceList, defaults corev1.ResourceList, permitted func(corev1.ResourceName) bool) {
	for name, quantity := range defaults {
		if _, found := (*list)[name]; found || !permitted(name) {
			continue
		}
		if *list == nil {
			*list = make(corev1.ResourceList)
		}
		(*list)[name] = quantity.DeepCopy()
	}
}

func setRequestDefaults(requests []resourceapi.DeviceRequest) {
	for i := range requests {
		if exactly := requests[i].Exactly; exactly != nil {
			setModeDefaults(&exactly.AllocationMode, &exactly.Count)
			setTolerationDefaults(exactly.Tolerations)
		}
		for j := range requests[i].FirstAvailable {
			sub := &requests[i].FirstAvailable[j]
			setModeDefaults(&sub.AllocationMode, &sub.Count)
			setTolerationDefaults(sub.Tolerations)
		}
	}
}

func setModeDefaults(mode *resourceapi.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func setTolerationDefaults(tolerations []resourceapi.DeviceToleration) {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}
