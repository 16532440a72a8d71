// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// plain does what a Snapshot does in the plainest way: a fork copies everything, and each question
// is answered by looking at all claims.
type plain struct {
	claims  map[string]*resourceapi.ResourceClaim
	slices  map[string][]*resourceapi.ResourceSlice
	classes map[string]*resourceapi.DeviceClass
	before  []plain
}

func (p *plain) copied() plain {
	copied := plain{claims: make(map[string]*resourceapi.ResourceClaim), slices: maps.Clone(p.slices), classes: p.classes}
	for name, claim := range p.claims {
		copied.claims[name] = claim.DeepCopy()
	}
	return copied
}

func (p *plain) Fork()   { p.before = append(p.before, p.copied()) }
func (p *plain) Commit() { p.before = p.before[:len(p.before)-1] }

func (p *plain) Revert() {
	last := len(p.before) - 1
	before := p.before[:last]
	*p = p.before[last]
	p.before = before
}

func (p *plain) AddClaims(added []*resourceapi.ResourceClaim) error {
	for _, claim := range added {
		if p.claims[claim.Name] != nil {
			return errors.New("claim is there")
		}
	}
	for _, claim := range added {
		p.claims[claim.Name] = claim.DeepCopy()
	}
	return nil
}

func (p *plain) PodClaims(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	var claims []*resourceapi.ResourceClaim
	for _, podClaim := range pod.Spec.ResourceClaims {
		claim := p.claims[podClaim.Name]
		if claim == nil {
			return nil, errors.New("claim is not there")
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

func owned(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return len(claim.OwnerReferences) > 0 && claim.OwnerReferences[0].UID == pod.UID
}

func (p *plain) release(claim *resourceapi.ResourceClaim, pod *corev1.Pod) {
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool {
		return by.UID == pod.UID
	})
}

func (p *plain) RemovePodOwnedClaims(pod *corev1.Pod) {
	for _, podClaim := range pod.Spec.ResourceClaims {
		if claim := p.claims[podClaim.Name]; claim != nil && owned(claim, pod) {
			delete(p.claims, claim.Name)
		} else if claim != nil {
			p.release(claim, pod)
		}
	}
}

func (p *plain) ReservePodClaims(pod *corev1.Pod) error {
	claims, err := p.PodClaims(pod)
	for _, claim := range claims {
		p.release(claim, pod)
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	return err
}

func (p *plain) UnreservePodClaims(pod *corev1.Pod) error {
	claims, err := p.PodClaims(pod)
	for _, claim := range claims {
		p.release(claim, pod)
		if owned(claim, pod) || len(claim.Status.ReservedFor) == 0 {
			claim.Status.Allocation = nil
		}
	}
	return err
}

func (p *plain) NodeResourceSlices(node string) ([]*resourceapi.ResourceSlice, bool) {
	of, found := p.slices[node]
	return of, found
}

func (p *plain) AddNodeResourceSlices(node string, added []*resourceapi.ResourceSlice) error {
	p.slices[node] = added
	return nil
}

func (p *plain) RemoveNodeResourceSlices(node string) { delete(p.slices, node) }

func (p *plain) ResourceClaims() fwk.ResourceClaimTracker     { return plainClaims{p} }
func (p *plain) ResourceSlices() fwk.ResourceSliceLister      { return plainSlices{p} }
func (p *plain) DeviceClasses() fwk.DeviceClassLister         { return plainClasses{p} }
func (p *plain) DeviceClassResolver() fwk.DeviceClassResolver { return plainClasses{p} }

type plainSlices struct{ *plain }

func (p plainSlices) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	var list []*resourceapi.ResourceSlice
	for _, of := range p.slices {
		list = append(list, of...)
	}
	return list, nil
}

type plainClasses struct{ *plain }

func (p plainClasses) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }
func (p plainClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	return p.classes[name], nil
}
func (p plainClasses) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass { return nil }

type plainClaims struct{ *plain }

func (p plainClaims) List() ([]*resourceapi.ResourceClaim, error) {
	return slices.Collect(maps.Values(p.claims)), nil
}

func (p plainClaims) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if claim := p.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, errors.New("claim is not there")
}

func (p plainClaims) SignalClaimPendingAllocation(_ types.UID, allocated *resourceapi.ResourceClaim) error {
	p.claims[allocated.Name].Status.Allocation = allocated.Status.Allocation.DeepCopy()
	return nil
}

func (p plainClaims) GetPendingAllocation(types.UID) *resourceapi.AllocationResult { return nil }
func (p plainClaims) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool       { return false }
func (p plainClaims) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error     { return nil }
func (p plainClaims) AssumedClaimRestore(string, string)                           {}

func (p plainClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	state, err := p.GatherAllocatedState()
	return state.AllocatedDevices, err
}

func (p plainClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return allocatedState(slices.Collect(maps.Values(p.claims))), nil
}

// allocatedState adds up what claims hold.
func allocatedState(claims []*resourceapi.ResourceClaim) *structured.AllocatedState {
	state := &structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			if result.ShareID != nil {
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
				continue
			}
			state.AllocatedDevices.Insert(id)
		}
	}
	return state
}
