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

// allocatedState is what all claims hold together. It is added up when it is asked for the first time,
// and kept up with each claim that changes from then on. The plugin Dray does not ask.
type allocatedState struct {
	mu sync.Mutex // held while it is added up
	// shareable is set if devices are held in shares.
	shareable bool
	// known is nil if nobody asked.
	known *structured.AllocatedState
	// devices and shares count the claims that hold what is in known, if it is more than one.
	devices counts[structured.DeviceID]
	shares  counts[structured.SharedDeviceID]
}

// of returns the state of the claims of a Snapshot.
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

// replace notes that a claim is another one now. Either is nil if there is none.
func (a *allocatedState) replace(before, after *resourceapi.ResourceClaim) {
	if a.known == nil || before != nil && after != nil && before.Status.Allocation == after.Status.Allocation {
		return
	}
	a.count(before, -1)
	a.count(after, 1)
}

// count adds what a claim holds (1), or takes it away (-1).
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

// held is a device, or a share of one.
type held struct {
	device structured.DeviceID
	share  *structured.SharedDeviceID
	result *resourceapi.DeviceRequestAllocationResult
}

// heldBy lists what a claim holds. Admin access holds nothing.
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

// counts says how often each element was added to a set, of those that were added more than once.
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
