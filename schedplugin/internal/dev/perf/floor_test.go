// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

func makeFloor(ctx context.Context, handle fwk.Handle) (fwk.Plugin, error) {
	return NewFloor(ctx, nil, handle)
}

// What is compared must give the same answers: on each fleet, pods fit all nodes or none, and
// get devices.
func TestPluginsAgreeOnFleets(t *testing.T) {
	schedmetrics.Register()
	for _, large := range fleets {
		f := large
		f.nodes = 3
		for _, c := range filterings {
			t.Run(f.name+"/"+c.name, func(t *testing.T) {
				a := newArena(t, &f, c.make)
				a.settle()
				for i := range 3 {
					state := framework.NewCycleState()
					a.reserve(state, pod(i), a.filter(state, pod(i)))
				}
				a.undo()
			})
		}
	}
}

// Floor gives away the first devices in the order of the units, with two writes.
func TestFloorWritesAllocations(t *testing.T) {
	schedmetrics.Register()
	for _, want := range []struct {
		fleet   string
		devices [][]string // of the pods on the first node
	}{
		{"empty", [][]string{{"accelerator-0"}, {"accelerator-1"}}},
		{"match", [][]string{
			{"accelerator-0", "accelerator-2", "accelerator-4", "accelerator-6", "accelerator-8"},
			{"accelerator-1", "accelerator-3", "accelerator-5", "accelerator-7", "accelerator-9"},
		}},
		{"backtracking", [][]string{numbered("partition-", 1, 8)}},
	} {
		t.Run(want.fleet, func(t *testing.T) {
			f := fleets[slices.IndexFunc(fleets, func(f fleet) bool { return f.name == want.fleet })]
			f.nodes = 2
			a := newArena(t, &f, makeFloor)
			a.settle()
			for i, devices := range want.devices {
				a.client.ClearActions()
				if got := bindFirst(t, a, i); !slices.Equal(got, devices) {
					t.Errorf("pod %d has devices %v, want %v", i, got, devices)
				}
				if n := writes(a); n != 2 {
					t.Errorf("pod %d took %d writes, want 2", i, n)
				}
			}
		})
	}
}

// writes counts calls other than those of informers and of tests.
func writes(a *arena) (n int) {
	for _, action := range a.client.Actions() {
		if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			n++
		}
	}
	return n
}

// bindFirst binds a pod to the first node, and returns what the API server has of its claim.
func bindFirst(t *testing.T, a *arena, i int) []string {
	t.Helper()
	state := framework.NewCycleState()
	suited := a.filter(state, pod(i))
	a.reserve(state, pod(i), suited)
	if status := a.plugin.(fwk.PreBindPlugin).PreBind(a.ctx, state, pod(i), suited[0]); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	claim, err := a.client.ResourceV1().ResourceClaims("default").Get(a.ctx, podName(i), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != pod(i).UID {
		t.Errorf("claim is reserved for %v, want pod %d", claim.Status.ReservedFor, i)
	}
	var devices []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Pool != suited[0] {
			t.Errorf("device is of pool %s, want %s", result.Pool, suited[0])
		}
		devices = append(devices, result.Device)
	}
	return devices
}

func TestFloorMakesClaimsForExtendedResources(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		UID:             "claim",
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{UID: "pod", Controller: new(bool)}},
	}}
	*claim.OwnerReferences[0].Controller = true
	if holder := holderOf(claim); holder != "pod" {
		t.Errorf("devices are held by %s, want the pod, as the claim's UID is not known in Reserve", holder)
	}
	delete(claim.Annotations, resourceapi.ExtendedResourceClaimAnnotation)
	if holder := holderOf(claim); holder != "claim" {
		t.Errorf("devices are held by %s, want the claim", holder)
	}
}

func TestFloorQueuesPodsForWhatConcernsThem(t *testing.T) {
	f := &Floor{stock: newStock()}
	if err := f.stock.add(slice("0", 1)); err != nil {
		t.Fatal(err)
	}
	own := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		UID: "own", OwnerReferences: []metav1.OwnerReference{{UID: pod(0).UID, Name: podName(0), Controller: new(bool)}},
	}}
	*own.OwnerReferences[0].Controller = true
	allocated := own.DeepCopy()
	allocated.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: driver, Pool: "a", Device: "d0"}},
	}}
	f.observe(own, allocated)
	for _, event := range []struct {
		name          string
		pod           int
		before, after any
		want          fwk.QueueingHint
		left          bool
	}{
		{"the claim was made", 0, nil, own, fwk.Queue, false},
		{"another pod's claim was made", 1, nil, own, fwk.QueueSkip, false},
		{"another pod's claim was allocated", 1, own, allocated, fwk.QueueSkip, false},
		{"devices came free", 1, allocated, own, fwk.Queue, true},
		{"devices came free with the claim", 1, allocated, nil, fwk.Queue, true},
		{"an idle claim is gone", 1, own, nil, fwk.QueueSkip, true},
	} {
		if hint, err := f.awaited(klog.Background(), pod(event.pod), event.before, event.after); err != nil || hint != event.want {
			t.Errorf("%s: hint is %v, %v; want %v", event.name, hint, err, event.want)
		}
		if f.stock.has("a") != event.left {
			t.Errorf("%s: node has something left: %v", event.name, !event.left)
		}
	}
}

// slice is of the node a.
func slice(units string, devices int) *resourceapi.ResourceSlice {
	s := sliceOf("a", "devices", units, 1)
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("d%d", i)})
	}
	return s
}

func TestStockCountsUnits(t *testing.T) {
	s := newStock()
	if err := s.add(slice("0,1 x2;2-3", 4)); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"d0", "d1"}, {"d0", "d1"}, {"d2", "d3"}} {
		taken := s.take("a", pod(i).UID)
		if taken == nil || !slices.Equal(taken.devices, want) {
			t.Fatalf("unit %d is %v, want %v", i, taken, want)
		}
	}
	if s.has("a") || s.take("a", "more") != nil {
		t.Error("there is something left")
	}
	s.release(pod(1).UID)
	s.release(pod(1).UID)
	if taken := s.take("a", "next"); taken == nil || taken.devices[0] != "d0" {
		t.Errorf("after a release, the unit is %v, want d0 and d1", taken)
	}
	if s.has("a") || s.has("elsewhere") {
		t.Error("a release told twice counts twice")
	}
}

func TestStockLearnsOfAllocations(t *testing.T) {
	s := newStock()
	allocation := &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: driver, Pool: "a", Device: "d1"}},
	}}
	s.learn("before its slice", allocation)
	if err := s.add(slice("0;1", 2)); err != nil {
		t.Fatal(err)
	}
	s.learn("before its slice", allocation)
	if taken := s.take("a", "x"); taken == nil || taken.devices[0] != "d0" || s.has("a") {
		t.Errorf("unit %v is free, want d0 alone", taken)
	}
	s.release("before its slice")
	if !s.has("a") {
		t.Error("what was released is not there")
	}
}

func TestStockRejectsUnits(t *testing.T) {
	for _, units := range []string{"x", "0-x", "0 xx", "4"} {
		if err := newStock().add(slice(units, 4)); err == nil {
			t.Errorf("units %q are accepted", units)
		}
	}
}

func TestFloorSkipsOtherPods(t *testing.T) {
	schedmetrics.Register()
	f := fleets[0]
	f.nodes = 1
	a := newArena(t, &f, makeFloor)
	state := framework.NewCycleState()
	other := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work"}}}}
	if _, status := a.plugin.PreFilter(a.ctx, state, other, a.nodes); !status.IsSkip() {
		t.Errorf("PreFilter says %v, want Skip", status)
	}
	if status := a.plugin.Reserve(a.ctx, state, other, nodeName(0)); !status.IsSuccess() {
		t.Errorf("Reserve says %v", status)
	}
}
