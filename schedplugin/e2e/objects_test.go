// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

func cel(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// gpus asks for devices of the arena's class under the request name "gpu".
func (a *arena) gpus(count int64, edits ...func(*resourceapi.ExactDeviceRequest)) resourceapi.DeviceClaim {
	exactly := resourceapi.ExactDeviceRequest{
		DeviceClassName: a.class,
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           count,
	}
	for _, edit := range edits {
		edit(&exactly)
	}
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &exactly}}}
}

// alternative is one of a prioritized list.
func (a *arena) alternative(name, model string, count int64) resourceapi.DeviceSubRequest {
	return resourceapi.DeviceSubRequest{
		Name: name, DeviceClassName: a.class, Selectors: []resourceapi.DeviceSelector{cel(a.is("model", model))},
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}
}

// selecting adds a selector.
func selecting(expression string) func(*resourceapi.ExactDeviceRequest) {
	return func(request *resourceapi.ExactDeviceRequest) {
		request.Selectors = append(request.Selectors, cel(expression))
	}
}

// all asks for every device that matches.
func all(request *resourceapi.ExactDeviceRequest) {
	request.AllocationMode, request.Count = resourceapi.DeviceAllocationModeAll, 0
}

// administrating asks for admin access.
func administrating(request *resourceapi.ExactDeviceRequest) { request.AdminAccess = ptr.To(true) }

// tolerating tolerates device taints with a key.
func tolerating(key string) func(*resourceapi.ExactDeviceRequest) {
	return func(request *resourceapi.ExactDeviceRequest) {
		request.Tolerations = append(request.Tolerations, resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists})
	}
}

// consuming asks for a part of the capacity memory.
func consuming(memory string) func(*resourceapi.ExactDeviceRequest) {
	return func(request *resourceapi.ExactDeviceRequest) {
		request.Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)},
		}
	}
}

func (a *arena) addClaim(ctx context.Context, name string, devices resourceapi.DeviceClaim) {
	GinkgoHelper()
	_, err := client.ResourceV1().ResourceClaims(a.namespace).Create(ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimSpec{Devices: devices},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (a *arena) addTemplate(ctx context.Context, name string, devices resourceapi.DeviceClaim) {
	GinkgoHelper()
	_, err := client.ResourceV1().ResourceClaimTemplates(a.namespace).Create(ctx, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: devices}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// podEdit changes a pod before it is created.
type podEdit func(*corev1.Pod)

// addPod adds a pod with one container.
func (a *arena) addPod(ctx context.Context, name string, edits ...podEdit) {
	GinkgoHelper()
	pod := inventory.Pod(name)
	for _, edit := range edits {
		edit(pod)
	}
	_, err := client.CoreV1().Pods(a.namespace).Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// deletePod returns when the pod has gone.
func (a *arena) deletePod(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(client.CoreV1().Pods(a.namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	a.expectGone(ctx, name)
}

// withClaim lets the pod's container use a claim.
func withClaim(claim string) podEdit {
	return using(corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
}

// withTemplate lets the pod's container use a claim made for it alone.
func withTemplate(template string) podEdit {
	return using(corev1.PodResourceClaim{Name: template, ResourceClaimTemplateName: ptr.To(template)})
}

func using(claim corev1.PodResourceClaim) podEdit {
	return func(pod *corev1.Pod) { inventory.Use(pod, claim) }
}

// withCPUs makes the pod ask for that many.
func withCPUs(count int64) podEdit {
	return requesting(corev1.ResourceCPU, count)
}

// requesting asks for a resource, and no more than that.
func requesting(name corev1.ResourceName, count int64) podEdit {
	return func(pod *corev1.Pod) {
		amount := corev1.ResourceList{name: *resource.NewQuantity(count, resource.DecimalSI)}
		pod.Spec.Containers[0].Resources.Requests = amount
		pod.Spec.Containers[0].Resources.Limits = amount
	}
}

func withPriority(class string) podEdit {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

// onNode restricts the pod to a node.
func onNode(name string) podEdit {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }
}
