// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func reservedFor(uids ...types.UID) []resourceapi.ResourceClaimConsumerReference {
	var list []resourceapi.ResourceClaimConsumerReference
	for _, uid := range uids {
		list = append(list, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: string(uid), UID: uid})
	}
	return list
}

// What the API server has of a claim counts before what is only in flight.
func TestAllocated(t *testing.T) {
	recorded, pending := &resourceapi.AllocationResult{}, &resourceapi.AllocationResult{}
	for name, test := range map[string]struct {
		recorded, pending, want *resourceapi.AllocationResult
		unallocated             int
	}{
		"neither":  {nil, nil, nil, 1},
		"recorded": {recorded, nil, recorded, 0},
		"pending":  {nil, pending, pending, 1},
		"both":     {recorded, pending, recorded, 0},
	} {
		claim := &Claim{Object: &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: test.recorded}}, Pending: test.pending}
		if claim.Allocated() != test.want {
			t.Errorf("%s: another allocation", name)
		}
		other := &Claim{Object: &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: recorded}}}
		if got := Unallocated([]*Claim{other, claim, other}); len(got) != test.unallocated || test.unallocated > 0 && got[0] != claim {
			t.Errorf("%s: %d claims without an allocation, want %d", name, len(got), test.unallocated)
		}
	}
}

// Only a claim for extended resources can be one that the API server does not have yet.
func TestInMemoryOnly(t *testing.T) {
	for _, test := range []struct {
		name     string
		extended bool
		want     bool
	}{
		{inMemoryClaimName, true, true},
		{inMemoryClaimName, false, false},
		{"made", true, false},
	} {
		claim := &Claim{Object: &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: test.name}}, Extended: test.extended}
		if claim.InMemoryOnly() != test.want {
			t.Errorf("%+v: in memory only: %t", test, claim.InMemoryOnly())
		}
	}
}

// A claim is a pod's own if it was made for this pod: not if the pod names it, and not if it was made for the group of the pod.
func TestIsOwn(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
	}
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"made for the pod":       {owner("Pod", "p"), true},
		"made for another pod":   {owner("Pod", "q"), false},
		"made for the pod group": {owner("PodGroup", "g"), false},
		"made by hand":           {nil, false},
	} {
		claim := Claim{Object: &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: test.owners}}}
		if claim.IsOwn(pod) != test.want {
			t.Errorf("%s: its own %t, want %t", name, !test.want, test.want)
		}
	}
}

// A claim can be reserved for 256 consumers.
func TestFull(t *testing.T) {
	for reserved, want := range map[int]bool{0: false, 1: false, 255: false, 256: true} {
		claim := &resourceapi.ResourceClaim{}
		for i := range reserved {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, reservedFor(types.UID(fmt.Sprint(i)))...)
		}
		if Full(claim) != want {
			t.Errorf("reserved %d times: full %t", reserved, !want)
		}
	}
}

// Consumers are told apart by UID: a pod may be made anew under its name.
func TestReservations(t *testing.T) {
	for name, test := range map[string]struct {
		reserved       []resourceapi.ResourceClaimConsumerReference
		has, exclusive bool
	}{
		"nobody":         {nil, false, true},
		"itself":         {reservedFor("a"), true, true},
		"somebody else":  {reservedFor("b"), false, false},
		"both":           {reservedFor("b", "a"), true, false},
		"of the name":    {[]resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "before"}}, false, false},
		"of another one": {[]resourceapi.ResourceClaimConsumerReference{{Resource: "podgroups", Name: "b", UID: "a"}}, true, true},
	} {
		claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{ReservedFor: test.reserved}}
		consumer := PodConsumer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}})
		if Reserved(claim, consumer) != test.has || OnlyFor(claim, "a") != test.exclusive {
			t.Errorf("%s: reserved %t, for it only %t", name, !test.has, !test.exclusive)
		}
	}
}

// The API server wants all fields of a consumer but the group, which is that of pods.
func TestPodConsumer(t *testing.T) {
	got := PodConsumer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"}})
	if want := (resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: "uid"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An allocation without a node selector is available everywhere. One that cannot be read is an error.
func TestReachOf(t *testing.T) {
	selector := func(operator corev1.NodeSelectorOperator) *resourceapi.AllocationResult {
		return &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: operator, Values: []string{"a"}}},
		}}}}
	}
	if reach, err := ReachOf(&resourceapi.AllocationResult{}); reach != nil || err != nil {
		t.Errorf("without a selector: %v, %v", reach, err)
	}
	reach, err := ReachOf(selector(corev1.NodeSelectorOpIn))
	if err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]bool{"a": true, "b": false} {
		if reach.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": zone}}}) != want {
			t.Errorf("zone %s: reached %t", zone, !want)
		}
	}
	if invalid, err := ReachOf(selector("Near")); err == nil && invalid.Match(&corev1.Node{}) {
		t.Error("a selector that nobody knows matches")
	}
}

// A claim with an allocation keeps its finalizers, has that for allocated claims once, and is another object.
func TestWithAllocation(t *testing.T) {
	for name, test := range map[string]struct{ finalizers, want []string }{
		"none":      {nil, []string{resourceapi.Finalizer}},
		"its own":   {[]string{resourceapi.Finalizer}, []string{resourceapi.Finalizer}},
		"another's": {[]string{"example.com/keep"}, []string{"example.com/keep", resourceapi.Finalizer}},
		"both":      {[]string{resourceapi.Finalizer, "example.com/keep"}, []string{resourceapi.Finalizer, "example.com/keep"}},
	} {
		before := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid", Finalizers: slices.Grow(test.finalizers, 4)}}
		before.Status.ReservedFor = reservedFor("a")
		allocation := &resourceapi.AllocationResult{}
		after := WithAllocation(before, allocation)
		if !slices.Equal(after.Finalizers, test.want) || after.Status.Allocation != allocation || after.UID != "uid" || !OnlyFor(after, "a") || OnlyFor(after, "") {
			t.Errorf("%s: claim %v", name, after)
		}
		if before.Status.Allocation != nil || !slices.Equal(before.Finalizers, test.finalizers) {
			t.Errorf("%s: the claim itself was changed to %v", name, before)
		}
	}
}

// One request for all devices is enough, also as an alternative.
func TestWantsAll(t *testing.T) {
	const all, some = resourceapi.DeviceAllocationModeAll, resourceapi.DeviceAllocationModeExactCount
	exactly := func(mode resourceapi.DeviceAllocationMode) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Exactly: &resourceapi.ExactDeviceRequest{AllocationMode: mode}}
	}
	first := func(modes ...resourceapi.DeviceAllocationMode) resourceapi.DeviceRequest {
		var list []resourceapi.DeviceSubRequest
		for _, mode := range modes {
			list = append(list, resourceapi.DeviceSubRequest{AllocationMode: mode})
		}
		return resourceapi.DeviceRequest{FirstAvailable: list}
	}
	for name, test := range map[string]struct {
		requests []resourceapi.DeviceRequest
		want     bool
	}{
		"no request":            {nil, false},
		"some":                  {[]resourceapi.DeviceRequest{exactly(some)}, false},
		"all":                   {[]resourceapi.DeviceRequest{exactly(all)}, true},
		"all come last":         {[]resourceapi.DeviceRequest{exactly(some), first(some), exactly(all)}, true},
		"alternatives":          {[]resourceapi.DeviceRequest{first(some, some)}, false},
		"an alternative is all": {[]resourceapi.DeviceRequest{exactly(some), first(some, all)}, true},
	} {
		claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: test.requests}}}
		if got := WantsAll([]*Claim{{Object: &resourceapi.ResourceClaim{}}, {Object: claim}}); got != test.want {
			t.Errorf("%s: wants all %t", name, got)
		}
	}
}
