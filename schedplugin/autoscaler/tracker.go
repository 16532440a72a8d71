// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// ResourceClaims implements SharedDRAManager of the framework. A claim that a plugin reserves is allocated at
// once: allocations are never pending, and nothing is bound.
func (s *Snapshot) ResourceClaims() fwk.ResourceClaimTracker { return claimTracker{s} }

// ResourceSlices implements SharedDRAManager.
func (s *Snapshot) ResourceSlices() fwk.ResourceSliceLister { return sliceLister{s} }

// DeviceClasses implements SharedDRAManager.
func (s *Snapshot) DeviceClasses() fwk.DeviceClassLister { return classLister{s} }

// DeviceClassResolver implements SharedDRAManager.
func (s *Snapshot) DeviceClassResolver() fwk.DeviceClassResolver { return classLister{s} }

// PodGroups returns a lister of pod groups for the framework. It is empty, as cluster-autoscaler does not
// support claims of groups.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return noGroups{} }

type noGroups struct{}

// Get implements PodGroupLister.
func (noGroups) Get(namespace, name string) (*schedulingapi.PodGroup, error) {
	return nil, apierrors.NewNotFound(schedulingapi.Resource("podgroups"), namespace+"/"+name)
}

type sliceLister struct{ *Snapshot }

// ListWithDeviceTaintRules implements ResourceSliceLister. The list must not be modified.
func (l sliceLister) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return slices.Clip(l.list), nil
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
	return slices.AppendSeq(make([]*resourceapi.ResourceClaim, 0, len(t.claims.now)), maps.Values(t.claims.now)), nil
}

// Get implements ResourceClaimTracker.
func (t claimTracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim := t.claims.now[ResourceClaimId{Name: name, Namespace: namespace}]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
}

// ExtendedClaim returns the claim for the extended resources of a pod, nil if there is none. The plugin Dray
// calls it.
func (t claimTracker) ExtendedClaim(pod *corev1.Pod) *resourceapi.ResourceClaim {
	return t.extendedOf(pod)
}

// SignalClaimPendingAllocation allocates a claim. A claim that does not exist is for extended resources of a
// pod: plugins create it with its allocation.
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

// GetPendingAllocation implements ResourceClaimTracker: allocations are never pending.
func (claimTracker) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }

// MaybeRemoveClaimPendingAllocation implements ResourceClaimTracker: allocations are never pending.
func (claimTracker) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return false }

// AssumeClaimAfterAPICall is an error: a simulation does not call the API.
func (claimTracker) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	return fmt.Errorf("claim %s/%s: pods are not bound in a simulation", claim.Namespace, claim.Name)
}

// AssumedClaimRestore implements ResourceClaimTracker: nothing is assumed.
func (claimTracker) AssumedClaimRestore(string, string) {}

// ListAllAllocatedDevices implements ResourceClaimTracker. The Snapshot owns the set: it must not be modified,
// and changes with the claims.
func (t claimTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return t.allocated.of(t.claims.now).AllocatedDevices, nil
}

// GatherAllocatedState implements ResourceClaimTracker. The Snapshot owns the sets, see
// ListAllAllocatedDevices.
func (t claimTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	return t.allocated.of(t.claims.now), nil
}
