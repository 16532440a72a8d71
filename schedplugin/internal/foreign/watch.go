// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign notices devices that another scheduler gives away, of drivers whose devices this one gives away as
// well. Neither sees in time what the other one does, so that a device can get into two claims.
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
	// ours are the claims that this scheduler allocated, or is about to.
	ours map[types.UID]bool
	// drivers are those of which it allocated devices, and when people were last told of each.
	drivers map[string]time.Time
	found   Found
}

// Found is told of a claim that somebody else allocated, and of a driver. Tell is set if people should be told: not for
// each of many claims.
type Found func(claim *resourceapi.ResourceClaim, driver string, tell bool)

// eventInterval is the time between two that people are told of.
const eventInterval = time.Minute

var watches shared.Values[fwk.SharedDRAManager, *Watch]

// Of returns the watch of a scheduler, the same for all its profiles. The first one's claims and Found count.
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

// Allocates says that this scheduler is about to allocate a claim. A Watch that is nil does not care.
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

// Forgets takes back what Allocates said: nothing was written.
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
		w.Forgets(old.UID) // it was deleted, and made anew
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

// judge reports whether somebody else allocated a claim with devices of a driver of ours, and whether to tell.
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

// driversOf lists the drivers of devices that an allocation takes, each once.
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
