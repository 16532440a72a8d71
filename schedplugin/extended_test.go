// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

const gpuResource = "example.com/gpu"

func asking(container string, count int64) corev1.Container {
	return corev1.Container{Name: container, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{gpuResource: *resource.NewQuantity(count, resource.DecimalSI)},
	}}
}

// podAsking has containers that ask for GPUs as extended resources.
func podAsking(name string, containers ...corev1.Container) *corev1.Pod {
	pod := podWith(name)
	pod.Spec.Containers = containers
	return pod
}

// plugged is a node on which a device plugin provides GPUs.
func plugged(name string, count int64) *corev1.Node {
	n := node(name)
	n.Status.Allocatable = corev1.ResourceList{gpuResource: *resource.NewQuantity(count, resource.DecimalSI)}
	return n
}

// Devices serve extended resources where no device plugin does. The claim for it is created
// with the finalizer, written once, and reported in the pod's status.
func TestExtendedResources(t *testing.T) {
	pod := podAsking("p", asking("one", 1), asking("two", 2))
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 4), pod}})
	w.writes()
	a := w.attempt(pod)
	_, status := a.reserve()
	expect(t, status, fwk.Success, "")
	if _, status := w.attempt(podAsking("q", asking("main", 2))).reserve(); !status.IsRejected() {
		t.Errorf("the claim in flight is not seen: %v", status)
	}
	expect(t, w.plugin.PreBind(w.ctx, a.state, pod, "a"), fwk.Success, "")
	if got, want := w.writes(), map[string]int{"create resourceclaims": 1, "update resourceclaims/status": 1, "patch pods/status": 1}; !maps.Equal(got, want) {
		t.Errorf("writes %v, want %v", got, want)
	}
	bound, err := w.client.CoreV1().Pods("default").Get(w.ctx, "p", metav1.GetOptions{})
	if err != nil || bound.Status.ExtendedResourceClaimStatus == nil {
		t.Fatalf("status %+v, error %v", bound.Status, err)
	}
	claim := w.claim(bound.Status.ExtendedResourceClaimStatus.ResourceClaimName)
	if got := devicesOf(claim); len(got) != 3 || !strings.HasPrefix(claim.Name, "p-extended-resources-") ||
		!slices.Contains(claim.Finalizers, resourceapi.Finalizer) || !claimstate.Reserved(claim, claimstate.PodConsumer(pod)) {
		t.Errorf("claim %s holds %v: %+v", claim.Name, got, claim)
	}
	if got := fmt.Sprint(bound.Status.ExtendedResourceClaimStatus.RequestMappings); got != "[{one example.com/gpu container-0-request-0} {two example.com/gpu container-1-request-0}]" {
		t.Errorf("mappings %s", got)
	}
	w.settle()
	if _, status := w.attempt(podAsking("q", asking("main", 2))).reserve(); !status.IsRejected() {
		t.Errorf("the claim in the API server is not seen: %v", status)
	}
	_, status = w.attempt(podAsking("q", asking("main", 1))).reserve()
	expect(t, status, fwk.Success, "")
	w.plugin.Unreserve(w.ctx, a.state, pod, "a")
	if _, err := w.client.ResourceV1().ResourceClaims("default").Get(w.ctx, claim.Name, metav1.GetOptions{}); err == nil {
		t.Error("the claim was not deleted")
	}
}

// If a device plugin provides the resources, nothing is allocated.
func TestDevicePluginsServe(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{plugged("a", 8), gpuClass(), gpus("a", 4), gpuClaim("other", 1)}})
	w.writes()
	pod := podAsking("p", asking("main", 2))
	_, status := w.attempt(pod).place()
	expect(t, status, fwk.Success, "")
	if got := w.writes(); len(got) > 0 {
		t.Errorf("writes %v", got)
	}
	pod.Spec.ResourceClaims = podWith("p", "other").Spec.ResourceClaims
	_, status = w.attempt(pod).place()
	expect(t, status, fwk.Success, "")
	if got := devicesOf(w.claim("other")); len(got) != 1 {
		t.Errorf("the other claim holds %v", got)
	}
	missing := podAsking("q", asking("main", 1))
	missing.Spec.Containers[0].Resources.Requests["example.com/fpga"] = resource.MustParse("1")
	a := w.attempt(missing)
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "the node does not have example.com/fpga")
}

// The claim of an attempt that was interrupted is deleted before the next one.
func TestExistingExtendedClaim(t *testing.T) {
	pod := podAsking("p", asking("main", 1))
	left := gpuClaim("p-extended-resources-1", 1)
	left.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	left.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: pod.UID, Controller: ptr.To(true)}}
	left.Finalizers = []string{resourceapi.Finalizer}
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), left}})
	a := w.attempt(pod)
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "the claim for extended resources of an earlier attempt has to be deleted first")
	_, status := w.plugin.PostFilter(w.ctx, a.state, pod, nil)
	expect(t, status, fwk.Unschedulable, "deletion of ResourceClaim completed")
	w.settle()
	_, status = w.attempt(pod).reserve()
	expect(t, status, fwk.Success, "")
}

// Containers that run together have devices of their own; init containers borrow.
func TestDeviceRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asking("sidecar", 1)
	sidecar.RestartPolicy = &always
	w := newWorld(t, setting{objects: []runtime.Object{gpuClass()}})
	eventually(t, func() error {
		if w.dra.DeviceClassResolver().GetDeviceClass(gpuResource) == nil {
			return fmt.Errorf("the class is not known")
		}
		return nil
	})
	for name, test := range map[string]struct {
		init, main         []corev1.Container
		requests, mappings string
	}{
		"one": {nil, []corev1.Container{asking("main", 2)}, "container-0-request-0:2", "main:container-0-request-0"},
		"init containers borrow": {
			[]corev1.Container{asking("init", 2)}, []corev1.Container{asking("a", 1), asking("b", 1)},
			"container-1-request-0:1 container-2-request-0:1",
			"a:container-1-request-0 b:container-2-request-0 init:container-1-request-0 init:container-2-request-0",
		},
		"and have more if they need": {
			[]corev1.Container{asking("init", 3), asking("next", 5)}, []corev1.Container{asking("main", 2)},
			"container-1-request-0:3 container-2-request-0:2",
			"main:container-2-request-0 init:container-2-request-0 init:container-1-request-0 next:container-2-request-0 next:container-1-request-0",
		},
		"sidecars last, and lend only to those before them": {
			[]corev1.Container{sidecar, asking("init", 1)}, []corev1.Container{asking("main", 0)},
			"container-0-request-0:1 container-1-request-0:1", "sidecar:container-0-request-0 init:container-1-request-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podAsking("p", test.main...)
			pod.Spec.InitContainers = test.init
			requests, mappings := podclaims.AllExtendedRequests(pod, []corev1.ResourceName{gpuResource}, w.plugin.source.ClassOf)
			var got []string
			for _, r := range requests {
				got = append(got, fmt.Sprintf("%s:%d", r.Name, r.Exactly.Count))
			}
			if text := strings.Join(got, " "); text != test.requests {
				t.Errorf("requests %s, want %s", text, test.requests)
			}
			got = nil
			for _, m := range mappings {
				got = append(got, m.ContainerName+":"+m.RequestName)
			}
			if text := strings.Join(got, " "); text != test.mappings {
				t.Errorf("mappings %s, want %s", text, test.mappings)
			}
		})
	}
}
