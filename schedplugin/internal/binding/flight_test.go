// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// An allocation in flight is announced with all that it will be. What cannot be announced is not in flight.
func TestAnnounce(t *testing.T) {
	claim, dra := boundClaim(nil), &claimSink{}
	claim.Object.Finalizers = nil
	if err := writer(fake.NewClientset(), dra).SignalPending(claim); err != nil {
		t.Fatal(err)
	}
	if claim.InFlight != "uid" || len(dra.signals) != 1 || dra.signals[0].Status.Allocation != claim.Pending || !slices.Equal(dra.signals[0].Finalizers, []string{resourceapi.Finalizer}) {
		t.Errorf("in flight as %q, announced %v", claim.InFlight, dra.signals)
	}
	claim = boundClaim(nil)
	claim.Object.UID = "refused"
	if err := writer(fake.NewClientset(), dra).SignalPending(claim); err == nil || !strings.Contains(err.Error(), "claim default/one: announce its allocation: in flight already") || claim.InFlight != "" {
		t.Errorf("in flight as %q, error %v", claim.InFlight, err)
	}
}

// A flight ends once, with what was written or without. The last pod that shares the claim is told so.
func TestFlightEnds(t *testing.T) {
	for _, last := range []bool{true, false} {
		dra := &claimSink{last: last}
		w, landing, coming := writer(fake.NewClientset(), dra), boundClaim(nil), boundClaim(nil)
		for _, claim := range []*claimstate.Claim{landing, coming} {
			if w.EndInFlight(claim) || w.CancelInFlight(claim) || claim.Pending == nil {
				t.Error("what is not in flight ended")
			}
			claim.InFlight = "flight"
		}
		if w.EndInFlight(landing) != last || landing.InFlight != "" || landing.Pending == nil {
			t.Errorf("landed as not the last one: %t, claim %+v", last, landing)
		}
		if w.CancelInFlight(coming) != last || coming.InFlight != "" || coming.Pending != nil {
			t.Errorf("recalled as not the last one: %t, claim %+v", last, coming)
		}
		if w.EndInFlight(landing) || w.CancelInFlight(coming) {
			t.Error("a flight ended twice")
		}
		if want := []string{"flight true", "flight false"}; !slices.Equal(dra.removed, want) {
			t.Errorf("the manager was told %q, want %q", dra.removed, want)
		}
	}
}

// The scheduler's cache may not have a claim yet that was created. Other claims, and other errors, are not waited for.
func TestAssume(t *testing.T) {
	many := slices.Repeat([]error{assumecache.ErrNotFound}, 1000)
	for name, test := range map[string]struct {
		extended bool
		errors   []error
		attempts int // -1: until the end
	}{
		"at once":                       {true, nil, 1},
		"created":                       {true, many[:3], 4},
		"never seen":                    {true, many, -1},
		"not created":                   {false, many, 1},
		"updated by somebody meanwhile": {true, []error{errors.New("older than what is known")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim, dra, start := boundClaim(nil), &claimSink{errors: test.errors}, time.Now()
				claim.Extended = test.extended
				writer(fake.NewClientset(), dra).assume(t.Context(), claim)
				took := time.Since(start)
				switch {
				case test.attempts >= 0 && (len(dra.assumed) != test.attempts || took > time.Second):
					t.Errorf("%d attempts in %s, want %d", len(dra.assumed), took, test.attempts)
				case test.attempts < 0 && (took != assumeTimeout || len(dra.assumed) > 200):
					t.Errorf("%d attempts in %s", len(dra.assumed), took)
				}
			})
		})
	}
}

// Deallocation leaves nothing of the status, and says which claim it was about.
func TestDeallocate(t *testing.T) {
	claim := boundClaim(allocationOf("gpu-0")).Object
	claim.Labels = map[string]string{"a": "b"}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: "a"}}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Device: "gpu-0"}}
	before, client := claim.DeepCopy(), fake.NewClientset(claim)
	if err := writer(client, &claimSink{}).Deallocate(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	stored, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || stored.Status.Allocation != nil || len(stored.Status.ReservedFor)+len(stored.Status.Devices) > 0 || stored.Labels["a"] != "b" {
		t.Errorf("claim %v, error %v", stored, err)
	}
	if got := written(client); got[0] != "update resourceclaims/status" || claim.Status.Allocation == nil || !slices.Equal(before.Status.ReservedFor, claim.Status.ReservedFor) {
		t.Errorf("wrote %q, and what was given is %v", got, claim)
	}
	client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewBadRequest("broken")
	})
	if err := writer(client, &claimSink{}).Deallocate(t.Context(), claim); err == nil || err.Error() != "claim default/one: deallocate: broken" {
		t.Errorf("error %v", err)
	}
}

// What a preempted pod alone uses is deallocated, again after a conflict, unless the claim became another one or is free. Of a
// claim that others use, the reservation goes. The manager gets what was written.
func TestRelease(t *testing.T) {
	conflict := apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "one", errors.New("older"))
	refused := apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "one", errors.New("policy"))
	const update, get, patch = "update resourceclaims/status", "get resourceclaims", "patch resourceclaims/status"
	for name, test := range map[string]struct {
		change   func(*resourceapi.ResourceClaim) // since the pod was scheduled
		failures []error
		calls    []string
		assumed  int
	}{
		"alone":               {nil, nil, []string{update}, 1},
		"written meanwhile":   {nil, []error{conflict}, []string{update, get, update}, 1},
		"replaced meanwhile":  {func(c *resourceapi.ResourceClaim) { c.UID = "other" }, []error{conflict}, []string{update, get}, 0},
		"freed meanwhile":     {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, []error{conflict}, []string{update, get}, 0},
		"shared meanwhile":    {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].UID = "b" }, []error{conflict}, []string{update, get, patch}, 0},
		"refused by a policy": {nil, []error{refused}, []string{update}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			claim := boundClaim(allocationOf("gpu-0"))
			claim.Object.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: "a"}}
			stored := claim.Object.DeepCopy()
			if test.change != nil {
				test.change(stored)
			}
			client, dra := fake.NewClientset(stored), &claimSink{}
			client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				if len(test.failures) == 0 {
					return false, nil, nil
				}
				err := test.failures[0]
				test.failures = test.failures[1:]
				return true, nil, err
			})
			writer(client, dra).Release(t.Context(), claim, "a")
			if got := written(client); !slices.Equal(got, test.calls) {
				t.Errorf("asked %q, want %q", got, test.calls)
			}
			if free := claim.Object.Status.Allocation == nil; len(dra.assumed) != test.assumed || free != (test.assumed > 0) {
				t.Errorf("the manager got %d claims, want %d; the claim is free: %v", len(dra.assumed), test.assumed, free)
			}
		})
	}
}

// Only a claim that the API server has is deleted.
func TestDeleteCreated(t *testing.T) {
	client := fake.NewClientset()
	writer(client, &claimSink{}).DeleteCreated(t.Context(), extendedClaim(t))
	if got := written(client); len(got) > 0 {
		t.Errorf("without a claim: wrote %q", got)
	}
	made := boundClaim(nil)
	made.Extended = true
	client = fake.NewClientset(made.Object)
	writer(client, &claimSink{}).DeleteCreated(t.Context(), made)
	if got, want := written(client), []string{"update resourceclaims", "delete resourceclaims"}; !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

// Other finalizers are for others to remove. A claim that is gone is no error, and others say which claim they were about.
func TestDelete(t *testing.T) {
	claim := boundClaim(nil).Object
	claim.Finalizers = []string{"example.com/keep", resourceapi.Finalizer}
	client := fake.NewClientset(claim)
	var left []string
	client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		left = action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).Finalizers
		return false, nil, nil
	})
	w := writer(client, &claimSink{})
	if err := w.Delete(t.Context(), claim); err != nil || !slices.Equal(left, []string{"example.com/keep"}) || len(claim.Finalizers) != 2 {
		t.Errorf("finalizers %q, and of what was given %q; error %v", left, claim.Finalizers, err)
	}
	if err := w.Delete(t.Context(), claim); err != nil {
		t.Errorf("what is gone: error %v", err)
	}
	for _, verb := range []string{"update", "delete"} {
		client := fake.NewClientset(claim)
		client.PrependReactor(verb, "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewBadRequest("broken")
		})
		if err := writer(client, &claimSink{}).Delete(t.Context(), claim); err == nil || err.Error() != "claim default/one: delete: broken" {
			t.Errorf("%s: error %v", verb, err)
		}
	}
	client = fake.NewClientset()
	client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "one", errors.New("changed"))
	})
	if err := writer(client, &claimSink{}).Delete(t.Context(), claim); err != nil {
		t.Errorf("what is gone after a conflict: error %v", err)
	}
}
