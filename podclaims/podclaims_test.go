// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
)

func container(name, amount string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"example.com/gpu": resource.MustParse(amount), corev1.ResourceCPU: resource.MustParse("1"),
	}}}
}

// Containers that run together have devices of their own. Init containers use those of later ones,
// and one request is for the largest need beyond that.
func TestExtendedRequests(t *testing.T) {
	pod := &corev1.Pod{}
	sidecar := container("sidecar", "1")
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{container("small", "2"), container("large", "5"), sidecar}
	pod.Spec.Containers = []corev1.Container{container("main", "2")}
	requests, mappings := podclaims.ExtendedRequests(pod, "example.com/gpu", "gpu")
	want := map[string]int64{"container-2-request-1": 1, "container-3-request-1": 2, "container-1-request-1": 2}
	if len(requests) != len(want) {
		t.Errorf("requests: %v", requests)
	}
	for _, r := range requests {
		if r.Exactly.Count != want[r.Name] || r.Exactly.DeviceClassName != "gpu" {
			t.Errorf("request %s is for %d devices of class %s, want %d of gpu", r.Name, r.Exactly.Count, r.Exactly.DeviceClassName, want[r.Name])
		}
	}
	users := make(map[string]int)
	for _, m := range mappings {
		users[m.ContainerName]++
	}
	if users["large"] != 3 || users["small"] != 2 || users["main"] != 1 || users["sidecar"] != 1 {
		t.Errorf("mappings: %v", mappings)
	}
}

// The newest class counts, of equally old ones the first by name.
func TestClassesByResource(t *testing.T) {
	class := func(name string, age int) *resourceapi.DeviceClass {
		c := &resourceapi.DeviceClass{}
		c.Name, c.CreationTimestamp = name, metav1.NewTime(time.Unix(int64(1000-age), 0))
		c.Spec.ExtendedResourceName = ptr.To("example.com/gpu")
		return c
	}
	found := podclaims.ClassesByResource([]*resourceapi.DeviceClass{class("old", 9), class("b", 1), class("a", 1)})
	if got := found["example.com/gpu"]; got.Name != "a" {
		t.Errorf("example.com/gpu is class %s, want a", got.Name)
	}
	if got := found["deviceclass.resource.kubernetes.io/old"]; got == nil || got.Name != "old" {
		t.Errorf("the name of class old finds %v", got)
	}
}

func TestResolve(t *testing.T) {
	r := podclaims.NewResolver(nil)
	template := &resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name = "default", "template"
	r.SetTemplate(template)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "pod", "uid"
	entry := corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: ptr.To("template")}

	made, err := r.Resolve(pod, entry)
	if err != nil || made == nil || made.Name != r.Key(pod, entry).Name {
		t.Fatalf("the claim to be made is %v: %v", made, err)
	}
	again, _ := r.Resolve(pod, entry)
	if again.Name != made.Name {
		t.Errorf("names differ: %s and %s", made.Name, again.Name)
	}
	made.Name = "drawn-at-random"
	r.SetClaim(made)
	if found, err := r.Resolve(pod, entry); err != nil || found != made {
		t.Errorf("the claim that was made is %v: %v", found, err)
	}
	pod.UID = "another pod of this name"
	if found, _ := r.Resolve(pod, entry); found == made {
		t.Error("a pod gets the claim of its predecessor")
	}
	if _, err := r.Resolve(pod, corev1.PodResourceClaim{Name: "x", ResourceClaimName: ptr.To("nowhere")}); !isMissing(err, "ResourceClaim", "nowhere") {
		t.Errorf("a claim that does not exist: %v", err)
	}
	if _, err := r.Resolve(pod, corev1.PodResourceClaim{Name: "x", ResourceClaimTemplateName: ptr.To("nowhere")}); !isMissing(err, "ResourceClaimTemplate", "nowhere") {
		t.Errorf("a template that does not exist: %v", err)
	}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "devices"}}
	if found, err := r.Resolve(pod, entry); found != nil || err != nil {
		t.Errorf("no claim is needed, got %v: %v", found, err)
	}
}

func isMissing(err error, kind, name string) bool {
	var missing *podclaims.Missing
	return errors.As(err, &missing) && missing.Kind == kind && missing.Key == types.NamespacedName{Namespace: "default", Name: name}
}

// A rule adds its taint to the devices that it selects, in copies of their slices.
func TestApplyTaintRules(t *testing.T) {
	published := []*resourceapi.ResourceSlice{{}, {}}
	for i, driver := range []string{"a", "b"} {
		published[i].Spec = resourceapi.ResourceSliceSpec{Driver: driver, Devices: []resourceapi.Device{{Name: "x"}, {Name: "y"}}}
	}
	rule := &resourceapi.DeviceTaintRule{}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To("a"), Device: ptr.To("y")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	patched := podclaims.ApplyTaintRules(published, []*resourceapi.DeviceTaintRule{rule})
	if patched[1] != published[1] || len(published[0].Spec.Devices[1].Taints) != 0 {
		t.Error("a slice that no rule selects was copied, or one was written to")
	}
	if x, y := patched[0].Spec.Devices[0].Taints, patched[0].Spec.Devices[1].Taints; len(x) != 0 || len(y) != 1 || y[0].Key != "broken" {
		t.Errorf("taints of x and y: %v, %v", x, y)
	}
}
