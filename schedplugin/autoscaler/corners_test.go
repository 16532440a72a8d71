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
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/autoscaler"
)

func consumer(pod *corev1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// mustAdd adds claims to a snapshot.
func mustAdd(t *testing.T, s *autoscaler.Snapshot, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	if err := s.AddClaims(claims); err != nil {
		t.Fatal(err)
	}
}

func claimNow(t *testing.T, s *autoscaler.Snapshot, namespace, name string) *resourceapi.ResourceClaim {
	t.Helper()
	claim, err := s.ResourceClaims().Get(namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// Nothing is reserved if one of the claims is in the way, and a claim that is named twice is reserved once.
func TestReserveAllOrNothing(t *testing.T) {
	s := newSnapshot(t)
	full := newClaim("full", nil, request("gpu", 1))
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		full.Status.ReservedFor = append(full.Status.ReservedFor, consumer(newPod(fmt.Sprint("other-", i))))
	}
	mustAdd(t, s, full)
	pod := newPod("pod")
	refer(pod, newClaim("shared-gpu", nil, nil))
	refer(pod, newClaim("shared-gpu", nil, nil))
	refer(pod, full)
	expectError(t, s.ReservePodClaims(pod), "claim default/full: it has as many consumers")
	if got := claimNow(t, s, "default", "shared-gpu").Status.ReservedFor; len(got) != 0 {
		t.Errorf("reserved for %v", got)
	}
	pod.Spec.ResourceClaims = pod.Spec.ResourceClaims[:2]
	if claims, err := s.PodClaims(pod); err != nil || len(claims) != 1 {
		t.Errorf("%d claims, %v, want 1", len(claims), err)
	}
	refer(pod, newClaim("missing", nil, nil))
	refer(pod, newClaim("missing, too", nil, nil))
	_, err := s.PodClaims(pod)
	expectError(t, err, "claim missing: missing is not in the snapshot")
}

// No claim was made from a template where none is needed.
func TestClaimThatIsNotNeeded(t *testing.T) {
	pod := newPod("pod")
	refer(pod, newClaim("claim", pod, nil))
	pod.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
	if claims, err := newSnapshot(t).PodClaims(pod); err != nil || len(claims) != 0 {
		t.Errorf("%d claims, %v", len(claims), err)
	}
	pod.Status.ResourceClaimStatuses = nil
	if _, err := newSnapshot(t).PodClaims(pod); err == nil {
		t.Error("a claim that does not exist yet is no error")
	}
}

// A consumer is a pod of that name and UID, and nothing else.
func TestConsumersThatLookAlike(t *testing.T) {
	s := newSnapshot(t)
	pod := newPod("pod")
	claim := newClaim("claim", nil, request("gpu", 1))
	group, resource, name, uid := consumer(pod), consumer(pod), consumer(pod), consumer(pod)
	group.APIGroup, resource.Resource, name.Name, uid.UID = "example.com", "podgroups", "other", "other"
	alike := []resourceapi.ResourceClaimConsumerReference{group, resource, name, uid}
	claim.Status.ReservedFor = slices.Clone(alike)
	mustAdd(t, s, claim)
	refer(pod, claim)
	if err := s.ReservePodClaims(pod); err != nil {
		t.Fatal(err)
	}
	if got := claimNow(t, s, "default", "claim").Status.ReservedFor; !slices.Equal(got, append(slices.Clone(alike), consumer(pod))) {
		t.Errorf("reserved for %v", got)
	}
	if err := s.UnreservePodClaims(pod); err != nil {
		t.Fatal(err)
	}
	if got := claimNow(t, s, "default", "claim").Status.ReservedFor; !slices.Equal(got, alike) {
		t.Errorf("reserved for %v", got)
	}
}

// Consumers of a claim are listed where nobody else writes, also if there is room behind the list that was given.
func TestConsumersAreNotShared(t *testing.T) {
	s := newSnapshot(t)
	claim := newClaim("claim", nil, request("gpu", 1))
	claim.Status.ReservedFor = append(make([]resourceapi.ResourceClaimConsumerReference, 0, 8), consumer(newPod("first")))
	mustAdd(t, s, claim)
	var reserved []*resourceapi.ResourceClaim
	for _, name := range []string{"a", "b"} {
		pod := newPod(name)
		refer(pod, claim)
		s.Fork()
		if err := s.ReservePodClaims(pod); err != nil {
			t.Fatal(err)
		}
		reserved = append(reserved, claimNow(t, s, "default", "claim"))
		s.Revert()
	}
	for i, want := range []string{"a", "b"} {
		if got := reserved[i].Status.ReservedFor; len(got) != 2 || got[1].Name != want {
			t.Errorf("reserved for %v, want %s as well", got, want)
		}
	}
}

// A claim of a pod is allocated no longer once the pod is taken off its node, whoever it is reserved for.
func TestUnreserveOwnClaims(t *testing.T) {
	for who, consumers := range map[string][]resourceapi.ResourceClaimConsumerReference{
		"nobody": nil, "another": {consumer(newPod("other"))}, "both": {consumer(newPod("other")), consumer(newPod("pod"))},
	} {
		s := newSnapshot(t)
		pod := newPod("pod")
		own := newClaim("own", pod, request("gpu", 1))
		own.Status.Allocation, own.Status.ReservedFor = &resourceapi.AllocationResult{}, consumers
		mustAdd(t, s, own)
		refer(pod, own)
		if err := s.UnreservePodClaims(pod); err != nil {
			t.Fatal(err)
		}
		if claimNow(t, s, "default", "own").Status.Allocation != nil {
			t.Errorf("reserved for %s: the claim is still allocated", who)
		}
		if own.Status.Allocation == nil {
			t.Errorf("reserved for %s: the claim was changed in place", who)
		}
	}
}

// Nothing is taken back from a pod that has nothing, and no change is told.
func TestUnreserveNothing(t *testing.T) {
	s, pod := newSnapshot(t), newPod("pod")
	own := newClaim("own", pod, request("gpu", 1))
	mustAdd(t, s, own)
	refer(pod, own)
	refer(pod, newClaim("shared-gpu", nil, nil))
	changes := s.ResourceClaims().(schedplugin.ClaimChanges)
	_, before, _ := changes.ChangedSince(nil)
	if err := s.UnreservePodClaims(pod); err != nil {
		t.Fatal(err)
	}
	if changed, _, known := changes.ChangedSince(before); !known || len(changed) > 0 {
		t.Errorf("changed %v, known %v", changed, known)
	}
}

// Claims of one name in two namespaces are two.
func TestNamespaces(t *testing.T) {
	s := newSnapshot(t)
	here, there := newClaim("claim", nil, request("gpu", 1)), newClaim("claim", nil, request("gpu", 1))
	there.Namespace = "there"
	mustAdd(t, s, here, there)
	changes := s.ResourceClaims().(schedplugin.ClaimChanges)
	_, before, _ := changes.ChangedSince(nil)
	pod := newPod("pod")
	pod.Namespace = "there"
	refer(pod, there)
	if err := s.ReservePodClaims(pod); err != nil {
		t.Fatal(err)
	}
	if n := len(claimNow(t, s, "default", "claim").Status.ReservedFor); n != 0 {
		t.Errorf("the claim of the other namespace has %d consumers", n)
	}
	if n := len(claimNow(t, s, "there", "claim").Status.ReservedFor); n != 1 {
		t.Errorf("the claim has %d consumers", n)
	}
	if changed, _, _ := changes.ChangedSince(before); !slices.Equal(changed, []types.NamespacedName{{Namespace: "there", Name: "claim"}}) {
		t.Errorf("changed %v", changed)
	}
}

// A claim is for the extended resources of a pod if it says so and belongs to that pod.
func TestWhoseExtendedClaim(t *testing.T) {
	pod := newPod("pod")
	for name, test := range map[string]struct {
		change func(claim *resourceapi.ResourceClaim, asked *corev1.Pod)
		found  bool
	}{
		"":                 {func(*resourceapi.ResourceClaim, *corev1.Pod) {}, true},
		"not annotated":    {func(claim *resourceapi.ResourceClaim, _ *corev1.Pod) { claim.Annotations = nil }, false},
		"of no pod":        {func(claim *resourceapi.ResourceClaim, _ *corev1.Pod) { claim.OwnerReferences[0].Kind = "Job" }, false},
		"of nobody":        {func(claim *resourceapi.ResourceClaim, _ *corev1.Pod) { claim.OwnerReferences = nil }, false},
		"other UID":        {func(_ *resourceapi.ResourceClaim, asked *corev1.Pod) { asked.UID = "other" }, false},
		"other name":       {func(_ *resourceapi.ResourceClaim, asked *corev1.Pod) { asked.Name = "other" }, false},
		"other namespace":  {func(_ *resourceapi.ResourceClaim, asked *corev1.Pod) { asked.Namespace = "other" }, false},
		"named by the pod": {func(claim *resourceapi.ResourceClaim, asked *corev1.Pod) { refer(asked, claim) }, true},
	} {
		claim := newClaim("extended", pod, request("gpu", 1))
		claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		asked := newPod("pod")
		test.change(claim, asked)
		s := newSnapshot(t)
		mustAdd(t, s, claim)
		tracker := s.ResourceClaims().(schedplugin.ExtendedClaims)
		if got := tracker.ExtendedClaim(asked); (got != nil) != test.found {
			t.Errorf("%s: found %v", name, got)
		}
		s.Fork()
		if err := s.ReservePodClaims(asked); err != nil {
			t.Fatal(err)
		}
		if n := len(claimNow(t, s, "default", "extended").Status.ReservedFor); n > 1 || n > 0 != test.found {
			t.Errorf("%s: the claim has %d consumers", name, n)
		}
		s.RemovePodOwnedClaims(asked)
		s.Fork()
		s.Commit()
		if got := tracker.ExtendedClaim(asked); got != nil {
			t.Errorf("%s: found %v after the pod was removed", name, got)
		}
		s.Revert()
		if got := tracker.ExtendedClaim(asked); (got != nil) != test.found {
			t.Errorf("%s: found %v after all was reverted", name, got)
		}
	}
}

// A claim for extended resources that the pod names is one claim, not two.
func TestExtendedClaimThatIsNamed(t *testing.T) {
	s := autoscaler.NewEmptySnapshot()
	pod := newPod("pod")
	extended, other := newClaim("extended", pod, request("gpu", 1)), newClaim("other", nil, request("gpu", 1))
	extended.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	for _, claim := range []*resourceapi.ResourceClaim{extended, other} {
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "devices", Driver: driver, Pool: "a-gpus", Device: "gpu-0"}},
		}}
	}
	refer(pod, extended)
	mustAdd(t, s, extended, other)
	if _, err := s.ResourceClaims().ListAllAllocatedDevices(); err != nil { // from here on they are counted
		t.Fatal(err)
	}
	s.RemovePodOwnedClaims(pod)
	if devices, err := s.ResourceClaims().ListAllAllocatedDevices(); err != nil || devices.Len() != 1 {
		t.Errorf("%d devices are allocated, %v, of which another claim holds one", devices.Len(), err)
	}
}

// Changes in a fork that is committed are reverted with the fork around it.
func TestRevertAfterCommit(t *testing.T) {
	s := newSnapshot(t)
	s.Fork()
	if err := s.AddNodeResourceSlices("a", slicesOf("a")); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, newClaim("claim", nil, request("gpu", 1)))
	s.Fork()
	s.Commit()
	s.Revert()
	if _, found := s.NodeResourceSlices("a"); found {
		t.Error("slices of a node are left")
	}
	if _, err := s.ResourceClaims().Get("default", "claim"); err == nil {
		t.Error("a claim is left")
	}
}

// Objects that need a feature have no effect while its gate is off.
func TestGates(t *testing.T) {
	share := types.UID("share")
	holder := newClaim("holder", nil, request("disk", 1))
	holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "devices", Driver: driver, Pool: "a-gpus", Device: "gpu-0"},
		{Request: "devices", Driver: driver, Pool: "a-disks", Device: "disk", ShareID: &share},
		{Request: "devices", Driver: driver, Pool: "a-gpus", Device: "gpu-1"},
	}}}
	rules := []*resourceapi.DeviceTaintRule{{Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(driver)},
		Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}}}
	gates := featuregatetesting.FeatureOverrides{
		features.DRAConsumableCapacity: true, features.DRADeviceTaints: true, features.DRADeviceTaintRules: true,
	}
	off := func(t *testing.T, gate string) (devices, shares int, tainted bool) {
		t.Helper()
		for name := range gates {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, name, string(name) != gate)
		}
		s := newSnapshot(t)
		mustAdd(t, s, holder)
		state, err := s.ResourceClaims().GatherAllocatedState()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetDeviceTaintRules(rules); err != nil {
			t.Fatal(err)
		}
		list, err := s.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil {
			t.Fatal(err)
		}
		return state.AllocatedDevices.Len(), state.AllocatedSharedDeviceIDs.Len(), len(list[0].Spec.Devices[0].Taints) > 0
	}
	for gate, want := range map[string]string{
		"":                      "2 1 true",
		"DRAConsumableCapacity": "3 0 true",
		"DRADeviceTaintRules":   "2 1 false",
	} {
		t.Run(gate, func(t *testing.T) {
			devices, shares, tainted := off(t, gate)
			if got := fmt.Sprint(devices, shares, tainted); got != want {
				t.Errorf("devices, shares and taints: %s, want %s", got, want)
			}
		})
	}
}

// Maps and lists that a Snapshot was made of may be modified afterwards.
func TestMapsThatWereGiven(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.DRADeviceTaints: true, features.DRADeviceTaintRules: true,
	})
	claim := newClaim("claim", nil, request("gpu", 1))
	claims := map[autoscaler.ResourceClaimId]*resourceapi.ResourceClaim{autoscaler.GetClaimId(claim): claim}
	published := map[string][]*resourceapi.ResourceSlice{"a": slicesOf("a")}
	given := classes()
	s := autoscaler.NewSnapshot(claims, published, nil, given)
	rules := []*resourceapi.DeviceTaintRule{{Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(driver)},
		Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}}}
	if err := s.SetDeviceTaintRules(rules); err != nil {
		t.Fatal(err)
	}
	clear(claims)
	clear(published)
	clear(given)
	rules[0] = &resourceapi.DeviceTaintRule{}
	claimNow(t, s, "default", "claim")
	if _, found := s.NodeResourceSlices("a"); !found {
		t.Error("the slices of the node are gone")
	}
	if _, err := s.DeviceClasses().Get("gpu"); err != nil {
		t.Error(err)
	}
	if err := s.AddNodeResourceSlices("b", slicesOf("b")); err != nil {
		t.Fatal(err)
	}
	list, err := s.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		t.Fatal(err)
	}
	for _, slice := range list {
		if len(slice.Spec.Devices[0].Taints) == 0 {
			t.Errorf("slice %s is not tainted", slice.Name)
		}
	}
	s.WalkResourceSlices(func(of []*resourceapi.ResourceSlice) bool {
		if len(of[0].Spec.Devices[0].Taints) > 0 {
			t.Error("Walk visits other slices than were given")
		}
		return true
	})
	s.RemoveNodeResourceSlices("b")
	if list, err = s.ResourceSlices().ListWithDeviceTaintRules(); err != nil || len(list) != 2 {
		t.Errorf("%d slices, %v, once those of a node were removed", len(list), err)
	}
}

// The list of slices is in the order of the names of nodes, those of no node first.
func TestOrderOfSlices(t *testing.T) {
	byNode := make(map[string][]*resourceapi.ResourceSlice)
	want := []string{"-network"}
	for i := range 20 {
		node := fmt.Sprintf("node-%02d", i)
		byNode[node] = slicesOf(node)[:1]
		want = append(want, node+"-gpus")
	}
	s := autoscaler.NewSnapshot(nil, byNode, networkSlices(), nil)
	list, err := s.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, slice := range list {
		got = append(got, slice.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("slices %s", strings.Join(got, " "))
	}
	if of, found := s.NodeResourceSlices(""); found {
		t.Errorf("a node without a name has %d slices", len(of))
	}
	autoscaler.NewEmptySnapshot().WalkResourceSlices(func([]*resourceapi.ResourceSlice) bool {
		t.Error("there are slices in an empty snapshot")
		return true
	})
}

// A list that was handed out in a fork stays as it is when other slices come after Revert.
func TestListOfAFork(t *testing.T) {
	s := autoscaler.NewEmptySnapshot()
	publish := func(node string) {
		t.Helper()
		if err := s.AddNodeResourceSlices(node, []*resourceapi.ResourceSlice{newSlice(node, "gpu")}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 { // so that there is room behind the list at times
		s.Fork()
		publish("hypothetical")
		handed, err := s.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(handed)
		s.Revert()
		publish(fmt.Sprint("node-", i))
		if !slices.Equal(handed, before) {
			t.Fatalf("with %d slices, the list that was handed out changed", i)
		}
	}
}

// Changes that were told stay as they are when the log begins anew.
func TestChangesThatWereTold(t *testing.T) {
	s := newSnapshot(t)
	changes := s.ResourceClaims().(schedplugin.ClaimChanges)
	told := make(map[string][]types.NamespacedName)
	forgotten := 0
	for i := range 3000 {
		claim := newClaim(fmt.Sprint("claim-", i), nil, request("gpu", 1))
		_, before, _ := changes.ChangedSince(nil)
		s.Fork()
		mustAdd(t, s, claim)
		changed, _, known := changes.ChangedSince(before)
		if told[claim.Name] = changed; !known {
			forgotten++
		}
		s.Revert()
	}
	for name, changed := range told {
		if len(changed) > 0 && (len(changed) != 1 || changed[0].Name != name) {
			t.Fatalf("what was told of %s became %v", name, changed)
		}
	}
	if forgotten > 6 {
		t.Errorf("%d of 3000 changes were forgotten at once", forgotten)
	}
}
