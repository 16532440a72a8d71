package autoscaler

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// ResourceClaims implements SharedDRAManager of the framework. What a plugin reserves is allocated
// at once: nothing is ever in flight, and nothing is bound.
func (s *Snapshot) ResourceClaims() fwk.ResourceClaimTracker { return claimTracker{s} }

// ResourceSlices implements SharedDRAManager.
func (s *Snapshot) ResourceSlices() fwk.ResourceSliceLister { return sliceLister{s} }

// DeviceClasses implements SharedDRAManager.
func (s *Snapshot) DeviceClasses() fwk.DeviceClassLister { return classLister{s} }

// DeviceClassResolver implements SharedDRAManager.
func (s *Snapshot) DeviceClassResolver() fwk.DeviceClassResolver { return classLister{s} }

// PodGroups implements a lister of the framework. There are none: cluster-autoscaler does not know
// of claims of groups.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return noGroups{} }

type noGroups struct{}

// Get implements PodGroupLister.
func (noGroups) Get(namespace, name string) (*schedulingapi.PodGroup, error) {
	return nil, apierrors.NewNotFound(schedulingapi.Resource("podgroups"), namespace+"/"+name)
}

type sliceLister struct{ *Snapshot }

// ListWithDeviceTaintRules implements ResourceSliceLister. The list must not be modified.
func (l sliceLister) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return l.list, nil
}

type classLister struct{ *Snapshot }

// List implements DeviceClassLister.
func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(l.classes)), nil
}

// Get implements DeviceClassLister.
func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := l.classes[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// GetDeviceClass implements DeviceClassResolver.
func (l classLister) GetDeviceClass(name corev1.ResourceName) *resourceapi.DeviceClass {
	return l.byResource[string(name)]
}

type claimTracker struct{ *Snapshot }

// List implements ResourceClaimTracker.
func (t claimTracker) List() ([]*resourceapi.ResourceClaim, error) {
	return slices.Collect(maps.Values(t.claims.now)), nil
}

// Get implements ResourceClaimTracker.
func (t claimTracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim := t.claims.now[ResourceClaimId{Name: name, Namespace: namespace}]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
}

// SignalClaimPendingAllocation allocates a claim. One that is not there is for the extended
// resources of a pod: plugins make it before they allocate it.
func (t claimTracker) SignalClaimPendingAllocation(uid types.UID, allocated *resourceapi.ResourceClaim) error {
	known, err := t.Get(allocated.Namespace, allocated.Name)
	if err != nil {
		return t.make(allocated)
	}
	if known.UID != uid {
		return fmt.Errorf("claim %s/%s: its UID is %q, what was allocated has %q", allocated.Namespace, allocated.Name, known.UID, uid)
	}
	t.put(allocated)
	return nil
}

// GetPendingAllocation implements ResourceClaimTracker: nothing is in flight.
func (claimTracker) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }

// MaybeRemoveClaimPendingAllocation implements ResourceClaimTracker: nothing is in flight.
func (claimTracker) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return false }

// AssumeClaimAfterAPICall is an error: a simulation calls no API.
func (claimTracker) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	return fmt.Errorf("claim %s/%s: pods are not bound in a simulation", claim.Namespace, claim.Name)
}

// AssumedClaimRestore implements ResourceClaimTracker: nothing is assumed.
func (claimTracker) AssumedClaimRestore(string, string) {}

// ListAllAllocatedDevices implements ResourceClaimTracker.
func (t claimTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return t.state().AllocatedDevices, nil
}

// GatherAllocatedState implements ResourceClaimTracker.
func (t claimTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	return t.state(), nil
}

// allocatedState is what claims hold, found out when it is asked for. The plugin Dray does not ask.
type allocatedState struct {
	mu    sync.Mutex
	known *structured.AllocatedState
}

func (a *allocatedState) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = nil
}

func (t claimTracker) state() *structured.AllocatedState {
	t.allocated.mu.Lock()
	defer t.allocated.mu.Unlock()
	if t.allocated.known == nil {
		state := &structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		}
		for _, claim := range t.claims.now {
			t.add(state, claim)
		}
		t.allocated.known = state
	}
	return t.allocated.known
}

// add adds what a claim holds. Admin access holds nothing.
func (t claimTracker) add(state *structured.AllocatedState, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		switch {
		case ptr.Deref(result.AdminAccess, false):
		case t.shares && result.ShareID != nil:
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		default:
			state.AllocatedDevices.Insert(id)
		}
	}
}
