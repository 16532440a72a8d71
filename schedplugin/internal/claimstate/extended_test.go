// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
)

// gpus is a manager with a class for the extended resource example.com/gpu.
type gpus struct{ fwk.SharedDRAManager }

func (g gpus) DeviceClassResolver() fwk.DeviceClassResolver { return g }

func (gpus) GetDeviceClass(name corev1.ResourceName) *resourceapi.DeviceClass {
	if name != "example.com/gpu" {
		return nil
	}
	return &resourceapi.DeviceClass{}
}

// Extended resources count wherever a pod asks for them.
func TestAsksForExtended(t *testing.T) {
	container := func(name corev1.ResourceName, amount string) []corev1.Container {
		return []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(amount), "cpu": resource.MustParse("1")}}}}
	}
	for what, test := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"container":      {corev1.PodSpec{Containers: container("example.com/gpu", "1")}, true},
		"init container": {corev1.PodSpec{InitContainers: container("example.com/gpu", "1"), Containers: container("cpu", "1")}, true},
		"overhead":       {corev1.PodSpec{Containers: container("cpu", "1"), Overhead: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}, true},
		"none of it":     {corev1.PodSpec{Containers: container("example.com/gpu", "0")}, false},
		"no class":       {corev1.PodSpec{Containers: container("example.com/nic", "1")}, false},
		"nothing":        {corev1.PodSpec{Containers: container("memory", "1")}, false},
	} {
		pod := &corev1.Pod{Spec: test.spec}
		if got := (Source{DRA: gpus{}, Extended: true}).AsksForExtended(pod); got != test.want {
			t.Errorf("%s: asks for extended resources: %t", what, got)
		}
		if (Source{DRA: gpus{}}).AsksForExtended(pod) {
			t.Errorf("%s: counts without the feature", what)
		}
	}
}
