package input

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SetDefaults sets what the API server would set when a v1 object leaves it out
// and what has a meaning for allocation.
func SetDefaults(object runtime.Object) {
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		setRequestDefaults(object.Spec.Devices.Requests)
	case *resourceapi.ResourceClaimTemplate:
		setRequestDefaults(object.Spec.Spec.Devices.Requests)
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
