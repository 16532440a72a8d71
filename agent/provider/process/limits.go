// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// checkLimits returns an error for limits that this machine cannot enforce. nil stands for no
// limits.
func checkLimits(resources *corev1.ResourceRequirements) error {
	if resources == nil {
		return nil
	}
	for name, controller := range map[corev1.ResourceName]string{corev1.ResourceCPU: cgroup.CPU, corev1.ResourceMemory: cgroup.Memory} {
		limit, limited := resources.Limits[name]
		if !limited || limit.IsZero() {
			continue
		}
		if err := cgroup.Check(controller); err != nil {
			return fmt.Errorf("resources.limits: %s: is not limited on this machine: %w", name, err)
		}
	}
	return nil
}

func limitsOf(resources corev1.ResourceRequirements) cgroup.Limits {
	return cgroup.Limits{
		CPU: resources.Limits.Cpu().MilliValue(), CPURequest: resources.Requests.Cpu().MilliValue(), Memory: resources.Limits.Memory().Value(),
	}
}

// limitsOfPod returns the limits of the pod itself, and the CPU request of all its containers
// together.
func limitsOfPod(pod *corev1.Pod) cgroup.Limits {
	var out cgroup.Limits
	if pod.Spec.Resources != nil {
		out = limitsOf(*pod.Spec.Resources)
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
	out.CPURequest = requests.Cpu().MilliValue()
	return out
}
