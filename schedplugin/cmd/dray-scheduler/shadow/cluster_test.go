// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimWith has devices of pool a, if there are any, and is reserved for the pod of its name.
func claimWith(name string, devices ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)}}
	if len(devices) == 0 {
		return claim
	}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpus", Driver: driver, Pool: "a", Device: device,
		})
	}
	return claim
}

// Claims of the pod that is judged are shown as they were before they were allocated. Those for extended resources were not there.
func TestHide(t *testing.T) {
	c := newCluster()
	judged, extended, other := claimWith("judged", "gpu-0"), claimWith("extended", "gpu-1"), claimWith("other", "gpu-2")
	extended.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	for _, claim := range []*resourceapi.ResourceClaim{judged, extended, other} {
		c.claims[nameOf(claim)] = claim
	}
	for _, test := range []struct {
		hidden []*resourceapi.ResourceClaim
		listed []string // claims with devices, and others after them
	}{
		{[]*resourceapi.ResourceClaim{judged, extended}, []string{"other", "-judged"}},
		{[]*resourceapi.ResourceClaim{other}, []string{"extended", "judged", "-other"}},
		{nil, []string{"extended", "judged", "other"}},
	} {
		c.hide(test.hidden...)
		list, err := c.List()
		if err != nil {
			t.Fatal(err)
		}
		var with, without []string
		for _, claim := range list {
			if got, err := c.Get("default", claim.Name); err != nil || got != claim {
				t.Errorf("claim %s: listed as %v, got %v, error %v", claim.Name, claim, got, err)
			}
			if claim.Status.Allocation != nil {
				with = append(with, claim.Name)
				continue
			}
			if without = append(without, "-"+claim.Name); len(claim.Status.ReservedFor) > 0 {
				t.Errorf("claim %s is reserved for %v", claim.Name, claim.Status.ReservedFor)
			}
		}
		slices.Sort(with)
		if got := append(with, without...); !slices.Equal(got, test.listed) {
			t.Errorf("listed %q, want %q", got, test.listed)
		}
		if _, err := c.Get("default", "extended"); apierrors.IsNotFound(err) != slices.Contains(test.hidden, extended) {
			t.Errorf("the claim for extended resources: error %v", err)
		}
	}
	if _, err := c.Get("other", "judged"); !apierrors.IsNotFound(err) {
		t.Errorf("a claim of another namespace: error %v", err)
	}
	if judged.Status.Allocation == nil {
		t.Error("the claim itself lost its devices")
	}
}

// What is in flight is known until it lands, once.
func TestPending(t *testing.T) {
	c, claim := newCluster(), claimWith("c", "gpu-0")
	if got := c.GetPendingAllocation("uid"); got != nil {
		t.Errorf("in flight is %v", got)
	}
	if err := c.SignalClaimPendingAllocation("uid", claim); err != nil || c.GetPendingAllocation("uid") != claim.Status.Allocation {
		t.Errorf("in flight is %v, error %v", c.GetPendingAllocation("uid"), err)
	}
	if !c.MaybeRemoveClaimPendingAllocation("uid", true) || c.MaybeRemoveClaimPendingAllocation("uid", true) || c.GetPendingAllocation("uid") != nil {
		t.Error("it lands not once")
	}
	if err := c.AssumeClaimAfterAPICall(claim); !errors.Is(err, errNotKept) {
		t.Errorf("assumed: error %v", err)
	}
}

// Shares of a device for one request count once, and others apart. Claims without devices have none.
func TestDevicesOf(t *testing.T) {
	shares := claimWith("a", "gpu-0", "gpu-0")
	other := claimWith("b", "gpu-0", "gpu-1")
	for i := range other.Status.Allocation.Devices.Results {
		other.Status.Allocation.Devices.Results[i].Request = "more"
	}
	devices := devicesOf(nil, claimWith("none"), shares, other)
	if devices.Len() != 3 || listed(devices) != "[gpu.example.com/a/gpu-0 gpu.example.com/a/gpu-1]" {
		t.Errorf("%d devices, listed as %s", devices.Len(), listed(devices))
	}
	for d := range devices {
		if at := d.place(); at.request != "" || at.String() != d.String() {
			t.Errorf("%v is at %v", d, at)
		}
	}
}
