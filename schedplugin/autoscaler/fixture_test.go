// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"
)

func TestMain(m *testing.M) {
	metrics.Register() // the framework counts
	os.Exit(m.Run())
}

// describe lists what claims hold and who uses them.
func describe(t testing.TB, dra fwk.SharedDRAManager) string {
	t.Helper()
	claims, err := dra.ResourceClaims().List()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, claim := range claims {
		name, _, _ := strings.Cut(claim.Name, "/") // that of one for extended resources has a UID
		line := name + ":"
		if claim.Status.Allocation != nil {
			for _, result := range claim.Status.Allocation.Devices.Results {
				line += fmt.Sprintf(" %s/%s", result.Pool, result.Device)
				if result.ShareID != nil {
					line += " (share)"
				}
			}
		}
		for _, by := range claim.Status.ReservedFor {
			line += " <" + by.Name
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("100"),
		}},
	}
}

const driver = "gpu.example.com"

// slicesOf are eight GPUs of two models on two NUMA nodes, and a disk that is shared.
func slicesOf(node string) []*resourceapi.ResourceSlice {
	gpus := newSlice(node, "gpus")
	for i := range 8 {
		gpus.Spec.Devices = append(gpus.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"kind": {StringValue: ptr.To("gpu")}, "model": {StringValue: ptr.To([]string{"large", "small"}[i%2])},
				"numa": {IntValue: ptr.To(int64(i / 4))}, "uuid": {StringValue: ptr.To(fmt.Sprint(node, "-", i))},
			},
		})
	}
	disks := newSlice(node, "disks")
	disks.Spec.Devices = []resourceapi.Device{{
		Name: "disk", AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: ptr.To("disk")}},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"size": {Value: resource.MustParse("10Gi")}},
	}}
	return []*resourceapi.ResourceSlice{gpus, disks}
}

func newSlice(node, kind string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + kind},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node + "-" + kind, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// network is a pool that all nodes reach.
func network() *resourceapi.ResourceSlice {
	slice := newSlice("", "network")
	slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
	for i := range 3 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprint("address-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: ptr.To("address")}},
		})
	}
	return slice
}

func classes() map[string]*resourceapi.DeviceClass {
	all := make(map[string]*resourceapi.DeviceClass)
	for _, kind := range []string{"gpu", "disk", "address", "partition"} {
		all[kind] = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: kind}}
		all[kind].Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes[%q].kind == %q`, driver, kind),
		}}}
	}
	all["gpu"].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	return all
}

// request asks for devices of a class.
func request(class string, count int64) *resourceapi.ExactDeviceRequest {
	return &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
}

// newClaim asks for one thing. It belongs to the pod of the same name, if there is one.
func newClaim(name string, owner *corev1.Pod, asked *resourceapi.ExactDeviceRequest) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "devices", Exactly: asked}}}},
	}
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
	}
	return claim
}

// newPod refers to claims, those that were made from a template for it by its status.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
}

// refer has the pod use a claim.
func refer(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	if len(claim.OwnerReferences) == 0 {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Name})
		return
	}
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimTemplateName: ptr.To("template")})
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: claim.Name, ResourceClaimName: &claim.Name})
}
