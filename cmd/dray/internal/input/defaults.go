// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// SetDefaults sets the defaults of the API server that affect allocation.
func SetDefaults(object runtime.Object) {
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		setRequestDefaults(object.Spec.Devices.Requests)
	case *resourceapi.ResourceClaimTemplate:
		setRequestDefaults(object.Spec.Spec.Devices.Requests)
	case *corev1.Pod:
		setPodDefaults(&object.Spec)
	case *v1alpha1.DevicePool:
		v1alpha1.SetPoolDefaults(object)
	case *v1alpha1.DeviceClaim:
		v1alpha1.SetClaimDefaults(object)
	}
}

// setPodDefaults sets missing requests of containers to their limits.
func setPodDefaults(pod *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, limit := range resources.Limits {
				if _, requested := resources.Requests[name]; requested {
					continue
				}
				if resources.Requests == nil {
					resources.Requests = make(corev1.ResourceList)
				}
				resources.Requests[name] = limit.DeepCopy()
			}
		}
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
