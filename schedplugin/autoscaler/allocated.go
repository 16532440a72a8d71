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
		a.add(claim)
	}
	return a.known
}

// replace notes that a claim is another one now. Either is nil if there is none.
func (a *allocatedState) replace(before, after *resourceapi.ResourceClaim) {
	if a.known == nil || before != nil && after != nil && before.Status.Allocation == after.Status.Allocation {
		return
	}
	a.remove(before)
	a.add(after)
}

func (a *allocatedState) add(claim *resourceapi.ResourceClaim) {
	for _, h := range a.heldBy(claim) {
		if h.share == nil {
			a.devices.add(a.known.AllocatedDevices, h.device)
			continue
		}
		a.shares.add(a.known.AllocatedSharedDeviceIDs, *h.share)
		a.known.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(h.device, h.result.ConsumedCapacity))
	}
}

func (a *allocatedState) remove(claim *resourceapi.ResourceClaim) {
	for _, h := range a.heldBy(claim) {
		if h.share == nil {
			a.devices.remove(a.known.AllocatedDevices, h.device)
			continue
		}
		a.shares.remove(a.known.AllocatedSharedDeviceIDs, *h.share)
		a.known.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(h.device, h.result.ConsumedCapacity))
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

func (c counts[T]) add(set sets.Set[T], element T) {
	if set.Has(element) {
		c[element] = max(c[element], 1) + 1
	}
	set.Insert(element)
}

func (c counts[T]) remove(set sets.Set[T], element T) {
	switch n := c[element]; n {
	case 0:
		set.Delete(element)
	case 2:
		delete(c, element)
	default:
		c[element] = n - 1
	}
}
