// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/autoscaler"
)

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A change that fails changes nothing. The error names the object.
func TestErrors(t *testing.T) {
	snapshot := newSnapshot(t)
	pod := newPod("pod")
	one, two := newClaim("one", pod, request("gpu", 1)), newClaim("two", pod, request("gpu", 1))
	refer(pod, one)
	before := describe(t, snapshot)
	expectError(t, snapshot.AddClaims([]*resourceapi.ResourceClaim{one, two, one}), "claim default/one: it is in the snapshot already")
	expectError(t, snapshot.AddClaims([]*resourceapi.ResourceClaim{one, nil}), "claim 1 of 2 is nil")
	expectError(t, snapshot.AddClaims([]*resourceapi.ResourceClaim{one, newClaim("shared-gpu", nil, nil)}), "claim default/shared-gpu: ")
	_, err := snapshot.PodClaims(pod)
	expectError(t, err, "pod default/pod: claim one: one is not in the snapshot")
	expectError(t, snapshot.ReservePodClaims(pod), "pod default/pod: claim one: ")
	expectError(t, snapshot.UnreservePodClaims(pod), "pod default/pod: claim one: ")
	expectError(t, snapshot.ResourceClaims().SignalClaimPendingAllocation("x", newClaim("stray", nil, nil)), "claim default/stray is not in the snapshot, and is not for extended resources")
	expectError(t, snapshot.ResourceClaims().SignalClaimPendingAllocation("x", newClaim("shared-gpu", nil, nil)), "claim default/shared-gpu: its UID is")
	if after := describe(t, snapshot); after != before {
		t.Errorf("claims\n%s\nbecame\n%s", before, after)
	}
	expectError(t, snapshot.AddNodeResourceSlices("", slicesOf("")), "the name of the node is empty")
	if err := snapshot.AddNodeResourceSlices("a", slicesOf("a")); err != nil {
		t.Fatal(err)
	}
	expectError(t, snapshot.AddNodeResourceSlices("a", nil), "node a: ")
	snapshot.RemovePodOwnedClaims(pod) // of which nothing is there
	snapshot.RemoveNodeResourceSlices("b")
	snapshot.RemoveNodeResourceSlices("") // the slices of no node stay
	if list, _ := snapshot.ResourceSlices().ListWithDeviceTaintRules(); len(list) != 3 {
		t.Errorf("%d slices, want 3", len(list))
	}
}

// Commit and Revert without a fork do nothing.
func TestWithoutFork(t *testing.T) {
	snapshot := newSnapshot(t)
	before := describe(t, snapshot)
	snapshot.Commit()
	snapshot.Revert()
	if after := describe(t, snapshot); after != before {
		t.Errorf("claims\n%s\nbecame\n%s", before, after)
	}
}

// A claim has only so many consumers. One that is a consumer already takes no place.
func TestConsumersOfAClaim(t *testing.T) {
	snapshot := newSnapshot(t)
	var pods []*corev1.Pod
	for i := range resourceapi.ResourceClaimReservedForMaxSize + 1 {
		pod := newPod(fmt.Sprint("pod-", i))
		refer(pod, newClaim("shared-gpu", nil, nil))
		pods = append(pods, pod)
	}
	last := len(pods) - 1
	for _, pod := range pods[:last] {
		if err := snapshot.ReservePodClaims(pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := snapshot.ReservePodClaims(pods[0]); err != nil {
		t.Error(err)
	}
	expectError(t, snapshot.ReservePodClaims(pods[last]), "claim default/shared-gpu: it has as many consumers")
	if err := snapshot.UnreservePodClaims(pods[0]); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.ReservePodClaims(pods[last]); err != nil {
		t.Error(err)
	}
}

// Objects that were handed out stay as they were.
func TestClaimsAreNotChangedInPlace(t *testing.T) {
	snapshot := newSnapshot(t)
	pod := newPod("pod")
	refer(pod, newClaim("shared-gpu", nil, nil))
	given, err := snapshot.PodClaims(pod)
	if err != nil {
		t.Fatal(err)
	}
	before := given[0].DeepCopy()
	snapshot.Fork()
	if err := snapshot.ReservePodClaims(pod); err != nil {
		t.Fatal(err)
	}
	reserved, err := snapshot.PodClaims(pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(reserved[0].Status.ReservedFor) != 1 {
		t.Errorf("reserved for %v", reserved[0].Status.ReservedFor)
	}
	if err := snapshot.UnreservePodClaims(pod); err != nil {
		t.Fatal(err)
	}
	if len(given[0].Status.ReservedFor) != len(before.Status.ReservedFor) || len(reserved[0].Status.ReservedFor) != 1 {
		t.Error("a claim was changed in place")
	}
}

// Lists of slices that were handed out stay as they were.
func TestListsAreNotChanged(t *testing.T) {
	snapshot := newSnapshot(t)
	list := func() []*resourceapi.ResourceSlice {
		t.Helper()
		all, err := snapshot.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	add := func(node string) {
		t.Helper()
		if err := snapshot.AddNodeResourceSlices(node, slicesOf(node)); err != nil {
			t.Fatal(err)
		}
	}
	var lists, copies [][]*resourceapi.ResourceSlice
	hand := func() {
		lists, copies = append(lists, list()), append(copies, slices.Clone(list()))
	}
	add("a")
	for _, node := range []string{"b", "c", "d"} {
		snapshot.Fork()
		add(node)
		hand()
		snapshot.RemoveNodeResourceSlices("a")
		hand()
		snapshot.Revert()
		hand()
	}
	if _, found := snapshot.NodeResourceSlices("d"); found {
		t.Error("Revert left slices of a new node")
	}
	for i := range lists {
		if !slices.Equal(lists[i], copies[i]) {
			t.Errorf("list %d was changed", i)
		}
	}
	if _ = append(list(), nil); !slices.Equal(list(), copies[len(copies)-1]) || cap(list()) != len(list()) {
		t.Error("there is room behind a list that was handed out")
	}
}

// A device that two claims hold is allocated until both are gone.
func TestDevicesHeldTwice(t *testing.T) {
	holder := func(name string) *resourceapi.ResourceClaim {
		claim := newClaim(name, nil, request("gpu", 1))
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "devices", Driver: driver, Pool: "a-gpus", Device: "gpu-0"}},
		}}
		return claim
	}
	snapshot := autoscaler.NewEmptySnapshot()
	for holders := range 4 {
		devices, err := snapshot.ResourceClaims().ListAllAllocatedDevices()
		if err != nil {
			t.Fatal(err)
		}
		if devices.Len() != min(holders, 1) {
			t.Fatalf("%d devices are allocated with %d holders", devices.Len(), holders)
		}
		snapshot.Fork()
		if err := snapshot.AddClaims([]*resourceapi.ResourceClaim{holder(fmt.Sprint("claim-", holders))}); err != nil {
			t.Fatal(err)
		}
	}
	for holders := 3; holders >= 0; holders-- {
		snapshot.Revert()
		if devices, err := snapshot.ResourceClaims().ListAllAllocatedDevices(); err != nil || devices.Len() != min(holders, 1) {
			t.Errorf("%d devices are allocated with %d holders left, %v", devices.Len(), holders, err)
		}
	}
}

// The tracker tells which claims changed since an earlier call, and when it does not know.
func TestChangedSince(t *testing.T) {
	snapshot := newSnapshot(t)
	changes := snapshot.ResourceClaims().(schedplugin.ClaimChanges)
	_, first, known := changes.ChangedSince(nil)
	if known {
		t.Error("a call that never was is known")
	}
	claim := newClaim("one", nil, request("gpu", 1))
	snapshot.Fork()
	if err := snapshot.AddClaims([]*resourceapi.ResourceClaim{claim}); err != nil {
		t.Fatal(err)
	}
	changed, second, known := changes.ChangedSince(first)
	if want := (types.NamespacedName{Namespace: "default", Name: "one"}); !known || len(changed) != 1 || changed[0] != want {
		t.Errorf("changed %v, known %v", changed, known)
	}
	snapshot.Revert()
	if changed, _, known = changes.ChangedSince(second); !known || len(changed) != 1 {
		t.Errorf("after Revert: changed %v, known %v", changed, known)
	}
	if changed, _, known = changes.ChangedSince(first); !known || len(changed) != 2 {
		t.Errorf("since the first call: changed %v, known %v", changed, known)
	}
	other := autoscaler.NewEmptySnapshot().ResourceClaims().(schedplugin.ClaimChanges)
	if _, _, known := other.ChangedSince(first); known {
		t.Error("a call to another snapshot is known")
	}
	// Of very many changes the first are forgotten.
	for range 3000 {
		snapshot.Fork()
		if err := snapshot.AddClaims([]*resourceapi.ResourceClaim{claim}); err != nil {
			t.Fatal(err)
		}
		snapshot.Revert()
	}
	if _, _, known := changes.ChangedSince(first); known {
		t.Error("the log of changes has no end")
	}
	_, now, _ := changes.ChangedSince(nil)
	if changed, _, known := changes.ChangedSince(now); !known || len(changed) != 0 {
		t.Errorf("since now: changed %v, known %v", changed, known)
	}
}

// Changes are not forgotten as long as there are no more of them than claims.
func TestChangesOfManyClaims(t *testing.T) {
	snapshot := autoscaler.NewEmptySnapshot()
	changes := snapshot.ResourceClaims().(schedplugin.ClaimChanges)
	_, first, _ := changes.ChangedSince(nil)
	var claims []*resourceapi.ResourceClaim
	for i := range 3000 {
		claims = append(claims, newClaim(fmt.Sprint("claim-", i), nil, request("gpu", 1)))
	}
	mustAdd(t, snapshot, claims...)
	if changed, _, known := changes.ChangedSince(first); !known || len(changed) != len(claims) {
		t.Errorf("%d of %d changes, known %v", len(changed), len(claims), known)
	}
}

// Walk visits all objects, until it is told to stop.
func TestWalk(t *testing.T) {
	snapshot := newSnapshot(t)
	var claims, published, classes int
	snapshot.WalkResourceClaims(func(*resourceapi.ResourceClaim) bool { claims++; return true })
	snapshot.WalkResourceSlices(func(of []*resourceapi.ResourceSlice) bool { published += len(of); return true })
	snapshot.WalkDeviceClasses(func(*resourceapi.DeviceClass) bool { classes++; return false })
	if claims != 2 || published != 1 || classes != 1 {
		t.Errorf("visited %d claims, %d slices and %d classes", claims, published, classes)
	}
}
