// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/charge"
)

// TestQuotaLikeKubernetes compares what a claim counts with the evaluator of Kubernetes' ResourceQuota.
func TestQuotaLikeKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 5))
	classes := []*resourceapi.DeviceClass{class("gpu", "example.com/gpu"), class("nic", "example.com/nic"), class("disk", "")}
	resources := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	for _, class := range classes {
		resources.OnAdd(class, true)
	}
	seen := make(map[string]int)
	for i := range 20_000 {
		// In sums that an int64 does not hold, the evaluator takes what it subtracts for a pod from more than it should.
		forPod := r.IntN(3) == 0
		claim := drawClaim(r, seen, !forPod)
		pods := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods()
		var pod *corev1.Pod
		if forPod {
			pod = drawPod(r)
			claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
			if err := pods.Informer().GetStore().Add(pod); err != nil {
				t.Fatal(err)
			}
			seen["for a pod"]++
		}
		evaluator := core.NewResourceClaimEvaluator(nil, resources, pods.Lister(), func(string, types.UID) ([]*resourceapi.ResourceClaim, error) {
			return []*resourceapi.ResourceClaim{claim}, nil
		})
		want, err := evaluator.Usage(claim)
		if err != nil {
			t.Fatal(err)
		}
		if got := charge.Quota(claim, classes, pod); !quota.Equals(got, want) || len(got) != len(want) {
			t.Fatalf("case %d: counted %v, Kubernetes counts %v, for %v", i, got, want, claim.Spec.Devices.Requests)
		}
		if _, implicit := want["requests.deviceclass.resource.kubernetes.io/gpu"]; implicit {
			seen["implicit"]++
		}
	}
	for _, kind := range []string{"alternatives", "all", "admin", "large", "for a pod", "implicit"} {
		if seen[kind] < 500 {
			t.Errorf("%d cases had: %s", seen[kind], kind)
		}
	}
}

func class(name, extended string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if extended != "" {
		c.Spec.ExtendedResourceName = &extended
	}
	return c
}

// drawClaim draws requests of all kinds, with large counts if they are wanted.
func drawClaim(r *rand.Rand, seen map[string]int, large bool) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"}}
	draw := func() (class string, mode resourceapi.DeviceAllocationMode, count int64) {
		class = []string{"gpu", "nic", "disk", "unknown"}[r.IntN(4)]
		switch n := r.IntN(6); {
		case n == 0:
			seen["all"]++
			return class, resourceapi.DeviceAllocationModeAll, 0
		case n == 1 && large:
			seen["large"]++
			return class, resourceapi.DeviceAllocationModeExactCount, 1<<62 + r.Int64N(1<<62)
		case n == 2:
			return class, "Other", 3
		}
		return class, resourceapi.DeviceAllocationModeExactCount, 1 + r.Int64N(8)
	}
	for i := range 1 + r.IntN(3) {
		request := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		if r.IntN(2) == 0 {
			seen["alternatives"]++
			for j := range 1 + r.IntN(4) {
				sub := resourceapi.DeviceSubRequest{Name: fmt.Sprint("s", j)}
				sub.DeviceClassName, sub.AllocationMode, sub.Count = draw()
				request.FirstAvailable = append(request.FirstAvailable, sub)
			}
		} else {
			request.Exactly = &resourceapi.ExactDeviceRequest{}
			request.Exactly.DeviceClassName, request.Exactly.AllocationMode, request.Exactly.Count = draw()
			if r.IntN(4) == 0 {
				seen["admin"]++
				request.Exactly.AdminAccess = ptr.To(true)
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

// drawPod draws a pod with extended resources, which may have ended.
func drawPod(r *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid"}}
	pod.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}[r.IntN(4)]
	for range 1 + r.IntN(2) {
		list := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{"example.com/gpu", "example.com/nic", "deviceclass.resource.kubernetes.io/gpu", "cpu"} {
			if r.IntN(2) == 0 {
				list[name] = *resource.NewQuantity(1+r.Int64N(6), resource.DecimalSI)
			}
		}
		container := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
		if r.IntN(3) == 0 {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}
	return pod
}
