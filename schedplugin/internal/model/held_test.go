// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

func heldIn(t *testing.T, m *Model) uint64 {
	t.Helper()
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	return view.HeldHash
}

// Held differs if anything does that decides what is in use, and only then.
func TestHeldHash(t *testing.T) {
	share := func(r *resourceapi.DeviceRequestAllocationResult, amount string) {
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(amount), "cores": resource.MustParse("2")}
	}
	observed := make(map[uint64]string)
	for _, test := range []struct {
		name   string
		change func(*resourceapi.ResourceClaim, *resourceapi.DeviceRequestAllocationResult)
	}{
		{"nothing", func(*resourceapi.ResourceClaim, *resourceapi.DeviceRequestAllocationResult) {}},
		{"UID", func(c *resourceapi.ResourceClaim, _ *resourceapi.DeviceRequestAllocationResult) { c.UID = "other" }},
		{"driver", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) { r.Driver = "other" }},
		{"pool", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) { r.Pool = "other" }},
		{"device", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) { r.Device = "other" }},
		{"request", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) { r.Request = "other" }},
		{"admin access", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) {
			r.AdminAccess = ptr.To(true)
		}},
		{"share", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) {
			r.ShareID = ptr.To(types.UID("s"))
		}},
		{"capacity", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) { share(r, "1Gi") }},
		{"more capacity", func(_ *resourceapi.ResourceClaim, r *resourceapi.DeviceRequestAllocationResult) { share(r, "2Gi") }},
	} {
		for range 20 { // the order of a map is chance
			c := newCluster()
			claim := c.put("a", "a", "0")
			test.change(claim, &claim.Status.Allocation.Devices.Results[0])
			held := heldIn(t, New(c, pools.Gates{}))
			if before, known := observed[held]; known && before != test.name {
				t.Errorf("%s: held as with %s", test.name, before)
			}
			observed[held] = test.name
		}
	}
	if len(observed) != 10 {
		t.Errorf("%d different numbers, want 10: %v", len(observed), observed)
	}
}
