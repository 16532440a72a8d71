// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// NewAllocator returns an allocator for the given cluster state. It is safe for concurrent use, and can be used
// for any number of nodes and claims. The state, claims, classes and slices must not be modified meanwhile. The
// error is always nil; it is part of upstream's signature.
//
// The index of the slices is kept for the next call, so that a new allocator per pod costs only what changed
// since the last one. Slices are recognised by pointer, in any order, as an informer returns them. An object
// that is modified in place is not noticed. The index of a cluster is dropped if it has no allocator left and
// no call during some garbage collections. The next call then reads all slices again. Of the state, only the
// entries of devices that are looked at are read.
//
// Searches have the limits of the zero Options.
func NewAllocator(
	ctx context.Context,
	features Features,
	allocatedState AllocatedState,
	classLister DeviceClassLister,
	resourceSlices []*resourceapi.ResourceSlice,
	celCache *cel.Cache,
) (Allocator, error) {
	return NewAllocatorWith(ctx, Options{}, features, allocatedState, classLister, resourceSlices, celCache)
}

// NewAllocatorWith is NewAllocator with limits for searches. Upstream has no such function.
func NewAllocatorWith(
	ctx context.Context,
	options Options,
	features Features,
	allocatedState AllocatedState,
	classLister DeviceClassLister,
	resourceSlices []*resourceapi.ResourceSlice,
	celCache *cel.Cache,
) (Allocator, error) {
	shared := sharedFor(allocator.Features(features))
	snapshot := shared.index.Snapshot(resourceSlices)
	return &facade{
		shared:  shared,
		options: options.withDefaults(),
		state:   shared.newState(snapshot, allocatedState),
		classes: classLister,
	}, nil
}

// facade implements upstream's interface.
type facade struct {
	shared  *shared
	options Options
	state   *pools.State
	classes DeviceClassLister
	last    atomic.Pointer[compiled]
}

// compiled is the problem of the last call. It is reused, as a pod's claims are the same for all nodes.
type compiled struct {
	claims  []*resourceapi.ResourceClaim
	budget  int64
	problem *allocator.Problem
}

func (f *facade) compile(claims []*resourceapi.ResourceClaim) (*compiled, error) {
	if last := f.last.Load(); last != nil && slices.Equal(last.claims, claims) {
		return last, nil
	}
	made := &compiled{claims: slices.Clone(claims), budget: f.shared.attempts.budget(claims, f.options)}
	var err error
	if made.problem, err = f.shared.core(made.budget).Compile(claims, f.classes); err != nil {
		return nil, err
	}
	f.last.Store(made)
	return made, nil
}

// Allocate implements Allocator.
func (f *facade) Allocate(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	asked, err := f.compile(claims)
	if err != nil {
		return nil, err
	}
	found, err := asked.problem.Feasible(ctx, f.state, node)
	switch {
	case err != nil:
		return nil, err
	case found.Verdict() == allocator.NotDecided:
		f.shared.attempts.undecided(claims, asked.budget, f.options)
		return nil, fmt.Errorf("%w: the search used up its step budget%w", ErrUndecided, ErrFailedAllocationOnNode)
	case found.InvalidPools():
		return nil, fmt.Errorf("invalid resource pools were found%w", ErrFailedAllocationOnNode)
	}
	return found.Results(), nil
}

// shared is what the allocators of all pods with the same features have in common: caches, and the index of the
// slices.
type shared struct {
	features allocator.Features
	memory   *allocator.Memory
	// cores are allocators by budget.
	cores    *xsync.Map[int64, *allocator.Allocator]
	attempts *attempts
	index    *pools.Index
	// lookedUp counts the devices whose usage was looked up, or would have been without the sums of reading,
	// since the last allocator was made.
	lookedUp atomic.Int64
}

var byFeatures = xsync.NewMap[allocator.Features, *shared]()

func sharedFor(features allocator.Features) *shared {
	known, _ := byFeatures.LoadOrCompute(features, func() (made *shared, cancel bool) {
		return &shared{
			features: features,
			memory:   allocator.NewMemory(allocator.MemoryOptions{}),
			cores:    xsync.NewMap[int64, *allocator.Allocator](),
			attempts: newAttempts(),
			index:    pools.NewIndex(features.PoolGates()),
		}, false
	})
	return known
}

// core returns the allocator with a budget, made if it is missing.
func (s *shared) core(budget int64) *allocator.Allocator {
	if s.cores.Size() > maxCores {
		s.cores.Clear()
	}
	known, _ := s.cores.LoadOrCompute(budget, func() (made *allocator.Allocator, cancel bool) {
		return allocator.New(allocator.Options{
			Features: s.features,
			ShareID:  func() types.UID { return uuid.NewUUID() },
			Budget:   budget,
			Memory:   s.memory,
		}), false
	})
	return known
}

// maxCores bounds the allocators that are kept.
const maxCores = 16
