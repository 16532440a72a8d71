// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listers is an allocator that is made for the claims of one pod and reads classes,
// slices and allocated claims from listers. It has the names and signatures that package
// structured of k8s.io/dynamic-resource-allocation had up to v0.31, with the objects of
// resource.k8s.io/v1.
//
// # Contract
//
// The package is no drop-in for a program of v0.31. That read objects of
// resource.k8s.io/v1alpha3, of which client-go of Kubernetes 1.37 has no listers, and which
// no API server of 1.32 or later serves. Such a program changes the import path, the group
// version, and what v1 has in other places:
//
//	v1alpha3 of Kubernetes 1.31             v1
//	requests[].deviceClassName, selectors,  requests[].exactly.…
//	  allocationMode, count, adminAccess
//	devices[].basic.attributes              devices[].attributes
//	devices[].basic.capacity[name]          devices[].capacity[name].value
//	slice.spec.nodeName, a string           a *string
//	request.adminAccess, a bool             exactly.adminAccess, a *bool
//	claim.spec.controller,                  not there: such claims were allocated by a
//	  allocation.controller,                controller of their driver, and the allocator
//	  class.spec.suitableNodes              was not asked about them
//
// What stays is how the program uses the allocator: what implements ClaimLister, one
// NewAllocator for each pod, Allocate for each node, ClaimsToAllocate, GatherPools. The
// example has both forms side by side.
//
// All features of resource.k8s.io/v1 in Kubernetes 1.37 are on: the API server decides which
// fields there are. Answers are those of allocator/structured.
package listers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/structured"
)

// ClaimLister returns a subset of the claims that a ResourceClaimLister would return.
type ClaimLister interface {
	// ListAllAllocated returns only claims which are allocated.
	ListAllAllocated() ([]*resourceapi.ResourceClaim, error)
}

// Allocator allocates the claims that it was made for, on one node after the other. It is safe for concurrent
// use.
type Allocator struct {
	claims    []*resourceapi.ResourceClaim
	allocator structured.Allocator
}

// NewAllocator returns an allocator for claims. It reads the listers once: only a later allocator sees changes
// of the cluster. The error names the lister that failed.
//
// The index of the slices is kept for the next call, as in structured.NewAllocator. So an allocator per pod
// costs what changed in the slices, and reading the allocated claims.
func NewAllocator(
	ctx context.Context,
	claimsToAllocate []*resourceapi.ResourceClaim,
	claimLister ClaimLister,
	classLister resourcelisters.DeviceClassLister,
	sliceLister resourcelisters.ResourceSliceLister,
) (*Allocator, error) {
	return NewAllocatorWith(ctx, structured.Options{}, claimsToAllocate, claimLister, classLister, sliceLister)
}

// NewAllocatorWith is NewAllocator with limits for searches. Upstream had no such function.
func NewAllocatorWith(
	ctx context.Context,
	options structured.Options,
	claimsToAllocate []*resourceapi.ResourceClaim,
	claimLister ClaimLister,
	classLister resourcelisters.DeviceClassLister,
	sliceLister resourcelisters.ResourceSliceLister,
) (*Allocator, error) {
	allocated, err := claimLister.ListAllAllocated()
	if err != nil {
		return nil, fmt.Errorf("list allocated claims: %w", err)
	}
	published, err := sliceLister.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list resource slices: %w", err)
	}
	inner, err := structured.NewAllocatorWith(ctx, options, features(), stateOf(allocated), classes{classLister}, published, nil)
	if err != nil {
		return nil, err
	}
	return &Allocator{claims: slices.Clone(claimsToAllocate), allocator: inner}, nil
}

func features() structured.Features { return structured.Features(allocator.AllFeatures()) }

// ClaimsToAllocate returns the claims that the allocator was made for.
func (a *Allocator) ClaimsToAllocate() []*resourceapi.ResourceClaim { return slices.Clone(a.claims) }

// Allocate looks for devices for all claims on a node. The results are in the order of the claims. They are nil
// if the claims cannot be allocated there, which includes that slices of a pool are missing or that the content
// of a pool is invalid.
//
// An error is about the input, such as a selector that fails, and does not depend on the node. The exception is
// structured.ErrUndecided: the search for this node spent its budget without an answer.
func (a *Allocator) Allocate(ctx context.Context, node *corev1.Node) ([]*resourceapi.AllocationResult, error) {
	results, err := a.allocator.Allocate(ctx, node, a.claims)
	if errors.Is(err, structured.ErrFailedAllocationOnNode) && !errors.Is(err, structured.ErrUndecided) {
		return nil, nil
	}
	if err != nil || results == nil {
		return nil, err
	}
	list := make([]*resourceapi.AllocationResult, len(results))
	for i := range results {
		list[i] = &results[i]
	}
	return list, nil
}

// stateOf adds up what allocated claims hold. Results with admin access hold nothing.
func stateOf(allocated []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range allocated {
		if claim == nil || claim.Status.Allocation == nil {
			continue
		}
		results := claim.Status.Allocation.Devices.Results
		for i := range results {
			if !ptr.Deref(results[i].AdminAccess, false) {
				take(&state, &results[i])
			}
		}
	}
	return state
}

func take(state *structured.AllocatedState, result *resourceapi.DeviceRequestAllocationResult) {
	id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
	if result.ShareID == nil {
		state.AllocatedDevices.Insert(id)
		return
	}
	state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
	if result.ConsumedCapacity != nil {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
	}
}

// classes adapts a lister of client-go to structured.DeviceClassLister.
type classes struct {
	resourcelisters.DeviceClassLister
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return c.DeviceClassLister.List(labels.Everything())
}
