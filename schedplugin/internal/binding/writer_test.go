// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/foreign"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// allocationOf is one of a device.
func allocationOf(device string) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: device}},
	}}
}

// boundClaim is a claim for a pod, as it is when the pod is scheduled.
func boundClaim(allocated *resourceapi.AllocationResult) *claimstate.Claim {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
	object := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", UID: "uid", Finalizers: []string{resourceapi.Finalizer}}}
	object.Status.Allocation = allocated
	claim := &claimstate.Claim{Object: object, Name: "d", Consumer: claimstate.PodConsumer(pod)}
	if allocated == nil {
		claim.Pending = allocationOf("gpu-0")
	}
	return claim
}

// A claim that somebody changed since the pod was scheduled is written only if it is still what the pod was scheduled with.
func TestClaimsThatChangeMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		allocated *resourceapi.AllocationResult // when the pod is scheduled
		change    func(*resourceapi.ResourceClaim)
		err       string
		updates   int
	}{
		"only labels":         {nil, func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }, "", 2},
		"replaced":            {nil, func(c *resourceapi.ResourceClaim) { c.UID = "other" }, "was replaced by another one meanwhile", 1},
		"deleted":             {nil, func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} }, "was deleted meanwhile", 1},
		"deallocated":         {allocationOf("gpu-0"), func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, "was deallocated meanwhile", 1},
		"allocated elsewhere": {nil, func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("gpu-1") }, "was allocated elsewhere meanwhile", 1},
		"moved":               {allocationOf("gpu-0"), func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("gpu-1") }, "was allocated elsewhere meanwhile", 1},
		"allocated the same":  {nil, func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("gpu-0") }, "", 2},
		"written by another pod of the group": {nil, func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation = allocationOf("gpu-0")
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a"}}
		}, "", 1},
	} {
		claim := boundClaim(test.allocated)
		latest := claim.Object.DeepCopy()
		test.change(latest)
		client := fake.NewClientset(latest)
		updates := 0
		client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			updates++
			return updates == 1, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "one", errors.New("changed"))
		})
		written, err := (&Writer{Client: client}).write(t.Context(), claim, nil)
		if got := errorText(err); !strings.Contains(got, test.err) || (got == "") != (test.err == "") || updates != test.updates {
			t.Errorf("%s: %d updates, want %d; error %q, want %q", name, updates, test.updates, got, test.err)
		}
		if err == nil && (!claimstate.Reserved(written, claim.Consumer) || !allocatedAsScheduled(claim, written.Status.Allocation)) {
			t.Errorf("%s: written is %v", name, written.Status)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// inFlight is told of allocations in flight, and forgets them.
type inFlight struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
}

func (m *inFlight) ResourceClaims() fwk.ResourceClaimTracker { return m }
func (*inFlight) SignalClaimPendingAllocation(types.UID, *resourceapi.ResourceClaim) error {
	return nil
}
func (*inFlight) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return true }

// events hand over what happens to claims.
type events struct {
	cache.SharedInformer
	cache.ResourceEventHandler
}

func (e *events) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	e.ResourceEventHandler = handler
	return nil, nil
}

// foreign.Watch knows the allocations of this scheduler: those in flight, and claims that it creates, but not
// those that were cancelled.
func TestOwnAllocationsAreRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		does  func(t *testing.T, w *Writer, claim *claimstate.Claim)
		found int
	}{
		"announced": {func(t *testing.T, w *Writer, claim *claimstate.Claim) {
			t.Helper()
			if err := w.SignalPending(claim); err != nil {
				t.Error(err)
			}
		}, 0},
		"taken back": {func(t *testing.T, w *Writer, claim *claimstate.Claim) {
			t.Helper()
			if err := w.SignalPending(claim); err != nil || !w.CancelInFlight(claim) {
				t.Errorf("not taken back, error %v", err)
			}
		}, 1},
		"made for extended resources": {func(t *testing.T, w *Writer, claim *claimstate.Claim) {
			t.Helper()
			if err := w.create(t.Context(), claim); err != nil {
				t.Error(err)
			}
		}, 0},
		"somebody else's": {func(*testing.T, *Writer, *claimstate.Claim) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
				made := action.(clienttesting.CreateAction).GetObject().DeepCopyObject().(*resourceapi.ResourceClaim)
				made.Name, made.UID = "one", "uid"
				return true, made, nil
			})
			dra, informer, found := &inFlight{}, &events{}, 0
			watch, err := foreign.Of(t.Context(), dra, informer, func(*resourceapi.ResourceClaim, string, bool) { found++ })
			if err != nil {
				t.Fatal(err)
			}
			claim := boundClaim(nil)
			before, after := claim.Object, claimstate.WithAllocation(claim.Object, claim.Pending)
			watch.Allocates("earlier", claim.Pending) // devices of the driver are this scheduler's concern
			test.does(t, &Writer{Client: client, DRA: dra, Model: model.New(dra, pools.Gates{}), Foreign: watch}, claim)
			informer.OnUpdate(before, after)
			if found != test.found {
				t.Errorf("the allocation is said %d times to be somebody else's, want %d", found, test.found)
			}
		})
	}
}

// A claim is overdue if its devices are to be waited for, and were for as long as that may take.
func TestOverdue(t *testing.T) {
	for _, test := range []struct {
		name      string
		off       bool
		condition string
		age       time.Duration // 0 if it is not known
		want      bool
	}{
		{"longer than the timeout", false, "ready", 2 * time.Minute, true},
		{"not as long", false, "ready", 30 * time.Second, false},
		{"nobody noted when", false, "ready", 0, false},
		{"nothing to wait for", false, "", 2 * time.Minute, false},
		{"conditions are switched off", true, "ready", 2 * time.Minute, false},
	} {
		claim := boundClaim(allocationOf("gpu-0")).Object
		if test.age > 0 {
			claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now().Add(-test.age)}
		}
		if test.condition != "" {
			claim.Status.Allocation.Devices.Results[0].BindingConditions = []string{test.condition}
		}
		if got := (&Writer{Conditions: !test.off, Timeout: time.Minute}).Overdue(claim); got != test.want {
			t.Errorf("%s: overdue %v", test.name, got)
		}
	}
	if (&Writer{Conditions: true}).Overdue(boundClaim(nil).Object) {
		t.Error("a claim without devices is overdue")
	}
}

// A claim that somebody changed since is deleted as it is now.
func TestDeleteChangedClaim(t *testing.T) {
	seen := boundClaim(nil).Object
	seen.ResourceVersion = "1"
	latest := seen.DeepCopy()
	latest.ResourceVersion = "2"
	client := fake.NewClientset(latest)
	client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if updated := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim); updated.ResourceVersion != "2" {
			return true, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "one", errors.New("changed"))
		}
		return false, nil, nil
	})
	if err := (&Writer{Client: client}).Delete(t.Context(), seen); err != nil {
		t.Error(err)
	}
	if found, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the claim is still there: %v (error %v)", found, err)
	}
}

// A reservation is removed from the claim that has it, and from no other one of its name: the API server refuses a patch for
// another UID.
func TestUnreserve(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("patch", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct {
			Metadata metav1.ObjectMeta               `json:"metadata"`
			Status   resourceapi.ResourceClaimStatus `json:"status"`
		}
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
			t.Error(err)
		}
		if patch.Metadata.UID != "uid" || action.GetSubresource() != "status" {
			return true, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "one", errors.New("another UID"))
		}
		if len(patch.Status.ReservedFor) != 1 || patch.Status.ReservedFor[0].UID != "a" {
			t.Errorf("the patch is about %v", patch.Status)
		}
		return true, boundClaim(nil).Object, nil
	})
	w := &Writer{Client: client}
	if !w.Unreserve(t.Context(), boundClaim(nil).Object, "a") {
		t.Error("the reservation is not removed")
	}
	replaced := boundClaim(nil).Object
	replaced.UID = "before"
	if w.Unreserve(t.Context(), replaced, "a") {
		t.Error("the reservation of a claim that was replaced is removed")
	}
}
