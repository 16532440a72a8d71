// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

const (
	namespace  = "default"
	podName    = "trainer"
	claimName  = "trainer-devices"
	gpuDriver  = "gpu.example.com"
	nicDriver  = "nic.example.com"
	pollPeriod = 50 * time.Millisecond
)

func node() *v1.Node {
	capacity := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("8"),
		v1.ResourceMemory: resource.MustParse("32Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{v1.LabelHostname: nodeName}},
		Status: v1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Demo"}},
		},
	}
}

func class(driver string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == '" + driver + "'"}},
		}},
	}
}

// claim requests a whole GPU, and a share of a NIC at the same PCIe root.
func claim() *resourceapi.ResourceClaim {
	request := func(name, driver string, selectors ...resourceapi.DeviceSelector) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver, Selectors: selectors}}
	}
	whole := resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: "device.attributes['" + gpuDriver + "'].profile == 'full'"}}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: namespace},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{request("gpu", gpuDriver, whole), request("nic", nicDriver)},
			Constraints: []resourceapi.DeviceConstraint{
				{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot"))},
			},
		}},
	}
}

func pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: namespace},
		Spec: v1.PodSpec{
			ResourceClaims: []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: ptr.To(claimName)}},
			Containers: []v1.Container{{
				Name: "main", Image: "none",
				Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "devices"}}},
			}},
		},
	}
}

// createObjects creates all objects except the node.
func (s *stage) createObjects(ctx context.Context) error {
	for _, driver := range []string{gpuDriver, nicDriver} {
		if _, err := s.Client.ResourceV1().DeviceClasses().Create(ctx, class(driver), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if _, err := s.Client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim(), metav1.CreateOptions{}); err != nil {
		return err
	}
	// The API server refuses pods until the namespace has its service account.
	return wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		_, err := s.Client.CoreV1().Pods(namespace).Create(ctx, pod(), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
