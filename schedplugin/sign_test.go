// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// fromTemplate is a pod with a claim that was made for it.
func fromTemplate(name string, count int64) (*corev1.Pod, *resourceapi.ResourceClaim) {
	pod := podWith(name)
	claim := gpuClaim(name+"-gpus", count)
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To("gpus")}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: ptr.To(claim.Name)}}
	return pod, claim
}

func TestSignatures(t *testing.T) {
	one, ofOne := fromTemplate("one", 1)
	twin, ofTwin := fromTemplate("twin", 1)
	two, ofTwo := fromTemplate("two", 2)
	has, ofHas := fromTemplate("has", 1)
	gets, ofGets := fromTemplate("gets", 1)
	renamed, ofRenamed := fromTemplate("renamed", 1)
	renamed.Spec.ResourceClaims[0].Name, renamed.Status.ResourceClaimStatuses[0].Name = "cards", "cards"
	objects := []runtime.Object{
		gpuClass(), gpus("a", 2), ofOne, ofTwin, ofTwo, held(ofHas, "a", "gpu-0"), ofGets, ofRenamed, gpuClaim("named", 1),
	}
	w := newWorld(t, setting{objects: objects})
	sign := func(pod *corev1.Pod) any {
		fragments, status := w.plugin.SignPod(w.ctx, pod)
		if !status.IsSuccess() {
			return status.Message()
		}
		return fragments
	}
	if got := sign(podWith("none")); !reflect.DeepEqual(sign(podWith("other")), got) {
		t.Errorf("pods without claims differ: %v", got)
	}
	if !reflect.DeepEqual(sign(one), sign(twin)) {
		t.Errorf("pods of one template differ: %v and %v", sign(one), sign(twin))
	}
	if reflect.DeepEqual(sign(one), sign(two)) {
		t.Errorf("pods of different templates are alike: %v", sign(one))
	}
	if reflect.DeepEqual(sign(one), sign(renamed)) {
		t.Errorf("pods that call their claims by other names are alike: %v", sign(one))
	}
	if err := w.dra.ResourceClaims().SignalClaimPendingAllocation(ofGets.UID, held(ofGets.DeepCopy(), "a", "gpu-1")); err != nil {
		t.Fatal(err)
	}
	for pod, want := range map[*corev1.Pod]string{
		has:                       "allocated claims are not signed",
		gets:                      "allocated claims are not signed",
		podWith("names", "named"): "claims that pods can share are not signed",
	} {
		if got := sign(pod); got != want {
			t.Errorf("pod %s: %v, want %q", pod.Name, got, want)
		}
	}
	everywhere := gpus("net", 1)
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	w = newWorld(t, setting{objects: append(objects, everywhere)})
	// Devices decide about extended resources, too.
	for _, pod := range []*corev1.Pod{one, podAsking("asks", asking("main", 1))} {
		if got, want := sign(pod), "there are devices that several nodes can reach"; got != want {
			t.Errorf("pod %s, with a device for all nodes: %v, want %q", pod.Name, got, want)
		}
	}
	features := everything
	features.EnableDRANodeAllocatableResources = true
	w = newWorld(t, setting{objects: objects, features: features})
	if got, want := sign(one), "devices may take of what nodes have"; got != want {
		t.Errorf("with devices that stand for CPU: %v, want %q", got, want)
	}
}

// counting counts how often slices are listed.
type counting struct {
	fwk.ResourceSliceLister
	listed int
}

func (c *counting) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	c.listed++
	return c.ResourceSliceLister.ListWithDeviceTaintRules()
}

// Signing a pod lists no slices, and follows what becomes of them.
func TestSigningFollowsSlices(t *testing.T) {
	pod, claim := fromTemplate("p", 1)
	w := newWorld(t, setting{objects: []runtime.Object{gpuClass(), gpus("a", 1), claim}})
	lister := &counting{ResourceSliceLister: w.plugin.hints.Slices.Lister}
	w.plugin.hints.Slices.Lister = lister
	eventually(t, func() error {
		if !w.plugin.hints.Slices.Synced() {
			return errors.New("slices are not known yet")
		}
		return nil
	})
	expectSigned := func(want bool) {
		t.Helper()
		eventually(t, func() error {
			if _, status := w.plugin.SignPod(w.ctx, pod); status.IsSuccess() != want {
				return fmt.Errorf("signed: %v, want %v", status.IsSuccess(), want)
			}
			return nil
		})
	}
	expectSigned(true)
	slices := w.client.ResourceV1().ResourceSlices()
	everywhere := gpus("net", 1)
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	if _, err := slices.Create(w.ctx, everywhere, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectSigned(false)
	if err := slices.Delete(w.ctx, everywhere.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectSigned(true)
	if lister.listed > 0 {
		t.Errorf("slices were listed %d times", lister.listed)
	}
}
