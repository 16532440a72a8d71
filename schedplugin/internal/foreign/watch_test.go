// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func claim(uid string, drivers ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	if len(drivers) > 0 {
		c.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for _, driver := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: driver})
	}
	return c
}

// Found are allocations of drivers of ours that we did not make, each of them, and people are told of few.
func TestForeignAllocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []string
		w := &Watch{ours: make(map[types.UID]bool), drivers: make(map[string]time.Time)}
		w.found = func(claim *resourceapi.ResourceClaim, driver string, tell bool) {
			found = append(found, fmt.Sprint(claim.UID, " ", driver, " ", tell))
		}
		expect := func(what string, want ...string) {
			t.Helper()
			if !slices.Equal(found, want) {
				t.Errorf("%s: found %v, want %v", what, found, want)
			}
			found = nil
		}
		allocate := func(uid string, drivers ...string) { w.updated(claim(uid), claim(uid, drivers...)) }
		allocate("early", "gpu")
		expect("nothing was allocated yet, as by a replica that waits")
		w.Allocates("ours", claim("ours", "gpu").Status.Allocation)
		allocate("ours", "gpu")
		w.updated(claim("ours", "gpu"), claim("ours", "gpu"))
		expect("it is ours")
		allocate("theirs", "gpu", "gpu", "nic")
		expect("theirs, and another driver", "theirs gpu true")
		allocate("more", "gpu")
		expect("once more", "more gpu false")
		time.Sleep(eventInterval)
		allocate("later", "gpu")
		expect("a while later", "later gpu true")
		admin := claim("admin", "gpu")
		admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
		w.updated(claim("admin"), admin)
		expect("admin access takes nothing")
		w.updated(claim("ours", "gpu"), claim("ours"))
		allocate("ours", "gpu")
		expect("it was ours, and was deallocated", "ours gpu false")
		w.Allocates("given up", claim("given up", "gpu").Status.Allocation)
		w.Forgets("given up")
		allocate("given up", "gpu")
		expect("we gave it up", "given up gpu false")
		w.Allocates("gone", claim("gone", "gpu").Status.Allocation)
		w.deleted(claim("gone", "gpu"))
		w.Allocates("gone unseen", claim("gone unseen", "gpu").Status.Allocation)
		w.deleted(cache.DeletedFinalStateUnknown{Obj: claim("gone unseen", "gpu")})
		w.Allocates("old", claim("old", "gpu").Status.Allocation)
		w.updated(claim("old", "gpu"), claim("new", "gpu"))
		expect("another claim of the name is theirs", "new gpu false")
		if len(w.ours) > 0 {
			t.Errorf("claims that are gone are remembered: %v", w.ours)
		}
	})
}
