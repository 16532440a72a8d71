// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// NewAllocator is the signature that upstream's structured package and its
// drop-in replacement share.
type NewAllocator func(
	ctx context.Context,
	features structured.Features,
	state structured.AllocatedState,
	classes structured.DeviceClassLister,
	slices []*resourceapi.ResourceSlice,
	programs *cel.Cache,
) (structured.Allocator, error)

// Upstream returns Kubernetes' own allocator, in its widest implementation, which is the
// one kube-scheduler picks with all features on.
func Upstream() alloctest.Allocator { return Structured(implementation("experimental")) }

// Picked returns Kubernetes' own allocator, in the implementation that kube-scheduler
// picks for the features of a case: the oldest one that has them all.
//
// The oldest implementation takes pools in random order, and slices as they are handed in.
// It gets them sorted by name, so that its answer may be the one in first-fit order.
func Picked() alloctest.Allocator {
	picked := Structured(implementation())
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		sorted := *c
		sorted.Slices = slices.SortedFunc(slices.Values(c.Slices), func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		return picked(ctx, &sorted)
	}
}

// enabling guards upstream's variable that says which implementations may be picked. It
// is read when an allocator is made.
var enabling sync.Mutex

// implementation makes allocators of the implementations named; of all, without names.
func implementation(names ...string) NewAllocator {
	return func(ctx context.Context, features structured.Features, state structured.AllocatedState,
		classes structured.DeviceClassLister, slices []*resourceapi.ResourceSlice, programs *cel.Cache,
	) (structured.Allocator, error) {
		enabling.Lock()
		defer enabling.Unlock()
		structured.EnableAllocators(names...)
		return structured.NewAllocator(ctx, features, state, classes, slices, programs)
	}
}

// Structured adapts any implementation of the structured API. Compiled CEL
// programs are shared by all cases with the same features.
func Structured(newAllocator NewAllocator) alloctest.Allocator {
	programs := newProgramCaches()
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		node, err := nodeByName(c)
		if err != nil {
			return alloctest.Outcome{Err: err}
		}
		a, err := newAllocator(ctx, structured.Features(c.Features), State(c), Classes(c.Classes), c.Slices, programs.forCase(c))
		if err != nil {
			return alloctest.Outcome{Err: err}
		}
		results, err := a.Allocate(ctx, node, c.Claims)
		return alloctest.Outcome{
			Results:  results,
			Err:      err,
			NodeOnly: err != nil && errors.Is(err, structured.ErrFailedAllocationOnNode),
			Steps:    steps(a),
		}
	}
}

// steps is the count that upstream's allocators keep: one for each device they try to
// place, one for the end of each request and claim, and one for the end. Its type is
// internal to them. Zero if an allocator does not count.
func steps(a structured.Allocator) int64 {
	method := reflect.ValueOf(a).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}

func nodeByName(c *alloctest.Case) (*corev1.Node, error) {
	for _, node := range c.Nodes {
		if node.Name == c.Node {
			return node, nil
		}
	}
	return nil, fmt.Errorf("node %q is not part of the case", c.Node)
}

// State gathers what allocated claims hold, the way kube-scheduler does for its
// allocator: admin access takes nothing, a share ID marks a share if the feature for
// shares is on.
func State(c *alloctest.Case) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range c.Allocated {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			addResult(&state, result, c.Features.ConsumableCapacity)
		}
	}
	return state
}

func addResult(state *structured.AllocatedState, result resourceapi.DeviceRequestAllocationResult, shares bool) {
	if ptr.Deref(result.AdminAccess, false) {
		return
	}
	id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
	if result.ShareID == nil || !shares {
		state.AllocatedDevices.Insert(id)
		return
	}
	state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
	if result.ConsumedCapacity != nil {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
	}
}
