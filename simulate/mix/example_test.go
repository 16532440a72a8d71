// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/mix"
)

// A capacity planner: which new nodes take the pods that wait, at least cost? Each pod wants one GPU. A node with one costs 10, a node with
// eight costs 60.
func ExampleFind() {
	ctx := context.Background()
	state, err := simulate.Open(cluster(), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	var types []*simulate.Template
	for _, offer := range []struct {
		name  string
		gpus  int
		price float64
	}{{"one-gpu", 1, 10}, {"eight-gpus", 8, 60}} {
		t, err := state.Template(simulate.TemplateSpec{
			Node: named(offer.name), Slices: []*resourceapi.ResourceSlice{gpusOf(offer.name, offer.gpus)}, Price: offer.price,
		})
		if err != nil {
			panic(err)
		}
		types = append(types, t)
	}
	for _, waiting := range []int{3, 7, 9} {
		var pods []*corev1.Pod
		for i := range waiting {
			pods = append(pods, gpuPod(fmt.Sprint("pod-", i)))
		}
		plan, err := mix.Find(ctx, state, mix.Question{Pods: pods, Types: types})
		if err != nil {
			panic(err)
		}
		fmt.Println(waiting, "pods cost", plan.Cost, "and at least", plan.Bound)
		for _, node := range plan.Nodes {
			fmt.Println(" ", node.Name(), "with", len(node.Pods))
		}
	}
	// Output:
	// 3 pods cost 30 and at least 30
	//   one-gpu-new-0 with 1
	//   one-gpu-new-1 with 1
	//   one-gpu-new-2 with 1
	// 7 pods cost 60 and at least 60
	//   eight-gpus-new-0 with 7
	// 9 pods cost 70 and at least 70
	//   one-gpu-new-0 with 1
	//   eight-gpus-new-0 with 8
}

// cluster has a class for GPUs, and a claim template for one of them.
func cluster() simulate.Cluster {
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	template := &resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name = "default", "one"
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	return simulate.Cluster{Classes: []*resourceapi.DeviceClass{class}, Templates: []*resourceapi.ResourceClaimTemplate{template}}
}

func named(name string) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	return node
}

// gpusOf lists the GPUs of a node.
func gpusOf(node string, gpus int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	slice.Name = node + "-gpus"
	slice.Spec = resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}
	for i := range gpus {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return slice
}

// gpuPod wants one GPU.
func gpuPod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("one")}}
	return pod
}
