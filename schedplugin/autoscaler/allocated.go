// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// allocatedState is the allocated state of all claims. It is computed when it is first needed, and updated with
// each changed claim from then on. The plugin Dray does not need it.
type allocatedState struct {
	mu sync.Mutex // held while known is computed
	// shareable is set if shares of devices count, which is the gate DRAConsumableCapacity.
	shareable bool
	// known is nil until it is first needed.
	known *structured.AllocatedState
	// devices and shares count the holders of elements of known that have more than one.
	devices counts[structured.DeviceID]
	shares  counts[structured.SharedDeviceID]
}

// of returns the state for the claims of a Snapshot.
func (a *allocatedState) of(claims map[ResourceClaimId]*resourceapi.ResourceClaim) *structured.AllocatedState {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known != nil {
		return a.known
	}
	a.devices, a.shares = make(counts[structured.DeviceID]), make(counts[structured.SharedDeviceID])
	a.known = &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		a.count(claim, 1)
	}
	return a.known
}

// replace updates the state for a changed claim. before or after is nil if there is none.
func (a *allocatedState) replace(before, after *resourceapi.ResourceClaim) {
	if a.known == nil || before != nil && after != nil && before.Status.Allocation == after.Status.Allocation {
		return
	}
	a.count(before, -1)
	a.count(after, 1)
}

// count adds the holdings of a claim if change is 1, or removes them if it is -1.
func (a *allocatedState) count(claim *resourceapi.ResourceClaim, change int) {
	for _, h := range a.heldBy(claim) {
		if h.share == nil {
			a.devices.count(a.known.AllocatedDevices, h.device, change)
			continue
		}
		a.shares.count(a.known.AllocatedSharedDeviceIDs, *h.share, change)
		consumed := structured.NewDeviceConsumedCapacity(h.device, h.result.ConsumedCapacity)
		if change > 0 {
			a.known.AggregatedCapacity.Insert(consumed)
		} else {
			a.known.AggregatedCapacity.Remove(consumed)
		}
	}
}

// held is a device that a claim holds, or a share of one.
type held struct {
	device structured.DeviceID
	share  *structured.SharedDeviceID
	result *resourceapi.DeviceRequestAllocationResult
}

// heldBy lists the holdings of a claim. Results with admin access are ignored.
func (a *allocatedState) heldBy(claim *resourceapi.ResourceClaim) []held {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	var list []held
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		h := held{device: structured.MakeDeviceID(result.Driver, result.Pool, result.Device), result: result}
		if a.shareable && result.ShareID != nil {
			h.share = ptr.To(structured.MakeSharedDeviceID(h.device, result.ShareID))
		}
		list = append(list, h)
	}
	return list
}

// counts has the number of times that each element was added to a set, if it is more than one.
type counts[T comparable] map[T]int

func (c counts[T]) count(set sets.Set[T], element T, change int) {
	n := c[element]
	if n == 0 && set.Has(element) {
		n = 1
	}
	switch n += change; {
	case n <= 0:
		set.Delete(element)
	case n == 1:
		set.Insert(element)
		delete(c, element)
	default:
		c[element] = n
	}
}
