// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/resourceslice"
)

// addNode registers a node that is ready for pods.
func addNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// TestNodeIsReplaced: the garbage collector deletes what was published for a node that is
// deleted. What is published for the node that takes its name stays.
func TestNodeIsReplaced(t *testing.T) {
	t.Parallel()
	old := addNode(t, "replaced")
	p := publishFor(t, "replaced")
	desired := pool("a", "b")
	desired.Pools["pool"] = resourceslice.Pool{Slices: desired.Pools["pool"].Slices} // not of all nodes
	p.Update(desired)
	p.becomes(t, "pool: a | b")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "replaced", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, "")
	now := addNode(t, "replaced")
	p.becomes(t, "pool: a | b")
	published := uids(p.stored(t))
	// The garbage collector takes a second at most after it has seen a slice.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if again := uids(p.stored(t)); again != published {
			t.Fatalf("slices %s were replaced by %s", published, again)
		}
	}
	for _, slice := range p.stored(t) {
		if owners := slice.OwnerReferences; len(owners) != 1 || owners[0].UID != now.UID {
			t.Errorf("slice %s: owners %v, want UID %s; that of the node before is %s", slice.Name, owners, now.UID, old.UID)
		}
	}
}

func uids(slices []resourceapi.ResourceSlice) string {
	var out []string
	for _, slice := range slices {
		out = append(out, string(slice.UID))
	}
	return strings.Join(out, " ")
}

// TestSickDevice: a device that says why it is sick in words that no taint can have does not
// get to a pod, and does once it is well.
func TestSickDevice(t *testing.T) {
	t.Parallel()
	addNode(t, "sick")
	p := publishFor(t, "sick")
	in := &inventory.Inventory{Devices: []inventory.Device{{
		ID:     inventory.ID{Driver: p.driver, Pool: "sick", Device: "gpu-0"},
		Health: inventory.Health{Unhealthy: true, Reason: "ECC error: 2 bits"},
	}}}
	p.Update(in.DriverResources(p.driver, nil, nil))
	p.becomes(t, "sick: gpu-0")
	if taints := p.stored(t)[0].Spec.Devices[0].Taints; len(taints) != 1 || taints[0].Value != "ECC-error-2-bits" {
		t.Errorf("taints %v", taints)
	}
	addPod(t, p.driver, "sick")
	// The scheduler may learn of the pod before it learns of its class.
	awaitPod(t, "sick", func(pod *corev1.Pod) bool {
		condition := scheduled(pod)
		return condition != nil && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, "taint")
	})
	in.Devices[0].Health = inventory.Health{}
	p.Update(in.DriverResources(p.driver, nil, nil))
	awaitPod(t, "sick", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "sick" })
	if told := p.told(); len(told) > 0 {
		t.Errorf("errors %v", told)
	}
}

// addPod creates a pod that needs a device of a driver, and what it refers to.
func addPod(t *testing.T, driver, name string) {
	t.Helper()
	ctx := t.Context()
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.ResourceV1().ResourceClaims("default").Create(ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: name}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			NodeSelector:                 map[string]string{corev1.LabelHostname: name},
			Containers:                   []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "device"}}}}},
			ResourceClaims:               []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To(name)}},
		},
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		// The namespace's ServiceAccount may not be there yet.
		if _, err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func awaitPod(t *testing.T, name string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err == nil && is(pod):
			return pod
		case time.Now().After(deadline):
			t.Fatalf("pod %s: status %v (%v)", name, pod.Status, err)
		}
	}
}

func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
