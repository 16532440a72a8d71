// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
)

// An informer tells one event after the other. Each gives the next State.
func ExampleState_With() {
	state, err := simulate.Open(gpuCluster("a", "b"), simulate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := gpuPods("one", 1)[0].DeepCopy()
	pod.Spec.NodeName = "a"
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: pod.Spec.ResourceClaims[0].Name, ResourceClaimName: ptr.To("made")}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "made"}}
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "a", Device: "gpu-1"}},
	}}
	it := simulate.Cluster{Pods: []*corev1.Pod{pod}, Claims: []*resourceapi.ResourceClaim{claim}}
	for _, event := range []simulate.Changes{{Set: it}, {Gone: it}} {
		if state, err = state.With(event); err != nil {
			fmt.Println(err)
			return
		}
		shapes, err := state.Shapes(gpuPods("two", 1))
		if err != nil {
			fmt.Println(err)
			return
		}
		fit, err := state.FitsMany(context.Background(), shapes[0], simulate.Real(nil))
		fmt.Println(fit.Pods, "more pods with two GPUs fit,", err)
	}
	// Output:
	// 3 more pods with two GPUs fit, <nil>
	// 4 more pods with two GPUs fit, <nil>
}
