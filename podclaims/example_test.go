// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/podclaims"
)

// A pod that asks for an extended resource needs a claim where a class stands for the resource, and no device plugin of the
// node does.
func ExampleFromDevices() {
	name := "gpu.example.com/gpu"
	class := &resourceapi.DeviceClass{}
	class.Name, class.Spec.ExtendedResourceName = "gpu", &name
	classes := podclaims.ClassesByResource([]*resourceapi.DeviceClass{class})
	classOf := func(name corev1.ResourceName) *resourceapi.DeviceClass { return classes[name] }

	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("2")},
	}}}
	asked := podclaims.ExtendedResources(pod)
	plugged := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("8")}}}
	for _, node := range []*corev1.Node{plugged, {}} {
		names, missing := podclaims.FromDevices(asked, node, classOf)
		requests, mappings := podclaims.AllExtendedRequests(pod, names, classOf)
		fmt.Printf("%v %q %d\n", names, missing, len(requests))
		for i, r := range requests {
			fmt.Println(r.Name, r.Exactly.DeviceClassName, r.Exactly.Count, mappings[i].ContainerName)
		}
	}
	// Output:
	// [] "" 0
	// [gpu.example.com/gpu] "" 1
	// container-0-request-0 gpu 2 main
}
