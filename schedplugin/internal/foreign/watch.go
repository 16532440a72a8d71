// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign detects claims that another scheduler allocated with devices of a driver whose devices this one
// allocates, too. Neither sees the other's claims in flight, so that two claims can get the same device.
package foreign

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/shared"
)

// Watch knows what the profiles of a scheduler allocate. It is safe for concurrent use.
type Watch struct {
	mu sync.Mutex
	// ours are the claims that this scheduler allocated, or is allocating.
	ours map[types.UID]bool
	// drivers are those whose devices this scheduler allocates, with the time of the last Event for each.
	drivers map[string]time.Time
	found   Found
}

// Found is called for each claim that another scheduler allocated, with the driver. Tell is set if an Event
// should be recorded: at most one a minute for each driver.
type Found func(claim *resourceapi.ResourceClaim, driver string, tell bool)

// eventInterval is the least time between two Events about one driver.
const eventInterval = time.Minute

var watches shared.Values[fwk.SharedDRAManager, *Watch]

// Of returns the watch of a scheduler, the same one for all its profiles. Claims and found of the first call are used.
func Of(ctx context.Context, dra fwk.SharedDRAManager, claims cache.SharedInformer, found Found) (*Watch, error) {
	var err error
	watch := watches.Of(ctx, dra, func() *Watch {
		w := &Watch{ours: make(map[types.UID]bool), drivers: make(map[string]time.Time), found: found}
		_, err = claims.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: w.updated, DeleteFunc: w.deleted})
		return w
	})
	if err != nil {
		return nil, fmt.Errorf("follow resource claims: %w", err)
	}
	return watch, nil
}

// Allocates records that this scheduler is about to allocate a claim. On a nil Watch it does nothing.
func (w *Watch) Allocates(claim types.UID, allocation *resourceapi.AllocationResult) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ours[claim] = true
	for i := range allocation.Devices.Results {
		driver := allocation.Devices.Results[i].Driver
		if _, known := w.drivers[driver]; !known {
			w.drivers[driver] = time.Time{}
		}
	}
}

// Forgets undoes Allocates: nothing was written.
func (w *Watch) Forgets(claim types.UID) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ours, claim)
}

func (w *Watch) updated(before, after any) {
	old, ok := before.(*resourceapi.ResourceClaim)
	claim, also := after.(*resourceapi.ResourceClaim)
	if !ok || !also {
		return
	}
	if old.UID != claim.UID {
		w.Forgets(old.UID) // the claim was deleted and created again
	}
	if claim.Status.Allocation == nil {
		if old.Status.Allocation != nil {
			w.Forgets(claim.UID)
		}
		return
	}
	if old.Status.Allocation != nil && old.UID == claim.UID {
		return
	}
	for _, driver := range driversOf(claim.Status.Allocation) {
		if foreign, tell := w.judge(claim.UID, driver); foreign {
			w.found(claim, driver, tell)
		}
	}
}

func (w *Watch) deleted(object any) {
	if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	if claim, ok := object.(*resourceapi.ResourceClaim); ok {
		w.Forgets(claim.UID)
	}
}

// judge reports whether another scheduler allocated the claim with devices of a driver whose devices this one allocates, too, and whether to record an Event.
func (w *Watch) judge(claim types.UID, driver string) (foreign, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	told, known := w.drivers[driver]
	if !known || w.ours[claim] {
		return false, false
	}
	if now := time.Now(); now.Sub(told) >= eventInterval {
		w.drivers[driver] = now
		return true, true
	}
	return true, false
}

// driversOf lists the drivers of an allocation's devices, without those for admin access.
func driversOf(allocation *resourceapi.AllocationResult) []string {
	var drivers []string
	seen := make(map[string]bool)
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		if !ptr.Deref(result.AdminAccess, false) && !seen[result.Driver] {
			seen[result.Driver] = true
			drivers = append(drivers, result.Driver)
		}
	}
	return drivers
}
