// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	isH100 = `device.attributes["gpu.example.com"].model == "H100"`
	large  = `device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`
)

// workload is a number of pending pods with claims from one template.
type workload struct {
	namespace, name string
	replicas        int
	requests        []resourceapi.DeviceRequest
	constraints     []resourceapi.DeviceConstraint
}

var sameNUMA = resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/numa"))}

var workloads = []workload{
	{namespace: "notebooks", name: "notebook", replicas: 6, requests: []resourceapi.DeviceRequest{
		request("gpu", gpuClass, 1, ""),
	}},
	{namespace: "serving", name: "chat", replicas: 4, requests: []resourceapi.DeviceRequest{{
		Name: "gpu",
		FirstAvailable: []resourceapi.DeviceSubRequest{
			alternative("h100", 1, isH100),
			alternative("large", 2, large),
		},
	}}},
	{namespace: "serving", name: "embed", replicas: 3, requests: []resourceapi.DeviceRequest{
		request("gpu", gpuClass, 2, large),
	}, constraints: []resourceapi.DeviceConstraint{sameNUMA}},
	{namespace: "training", name: "finetune", replicas: 4, requests: []resourceapi.DeviceRequest{
		request("gpu", gpuClass, 2, isH100),
		request("nic", nicClass, 1, ""),
	}, constraints: []resourceapi.DeviceConstraint{sameNUMA}},
	// No NUMA node has four free GPUs, though many nodes have.
	{namespace: "training", name: "pretrain", replicas: 1, requests: []resourceapi.DeviceRequest{
		request("gpu", gpuClass, 4, isH100),
		request("nic", nicClass, 1, ""),
	}, constraints: []resourceapi.DeviceConstraint{sameNUMA}},
}

func alternative(name string, count int64, selector string) resourceapi.DeviceSubRequest {
	return resourceapi.DeviceSubRequest{
		Name: name, DeviceClassName: gpuClass, Count: count,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}},
	}
}

func (f *fleet) addPending() {
	for _, w := range workloads {
		f.pending = append(f.pending, &resourceapi.ResourceClaimTemplate{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaimTemplate"},
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name},
			Spec: resourceapi.ResourceClaimTemplateSpec{
				Spec: newClaimSpec(w),
			},
		})
		for i := range w.replicas {
			f.pending = append(f.pending, f.pod(w, i))
		}
	}
}

func newClaimSpec(w workload) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: w.requests, Constraints: w.constraints}}
}

func (f *fleet) pod(w workload, number int) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("%s-%d", w.name, number), UID: f.uid()},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Key: "example.com/gpu", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: w.name, Image: "registry.example.com/" + w.name + ":1",
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "devices"}}},
			}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: ptr.To(w.name)}},
		},
	}
}
