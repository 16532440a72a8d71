package peer

import (
	"context"
	"errors"
	"fmt"

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

// Upstream returns Kubernetes' own allocator, in its widest variant, which is the
// one kube-scheduler picks with all features on.
func Upstream() alloctest.Allocator {
	structured.EnableAllocators("experimental")
	return Structured(structured.NewAllocator)
}

// Structured adapts any implementation of the structured API. Compiled CEL
// programs are shared by all cases with the same features.
func Structured(newAllocator NewAllocator) alloctest.Allocator {
	programs := newProgramCaches()
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		results, err := allocate(ctx, c, newAllocator, programs.forCase(c))
		return alloctest.Outcome{
			Results:  results,
			Err:      err,
			NodeOnly: err != nil && errors.Is(err, structured.ErrFailedAllocationOnNode),
		}
	}
}

func allocate(ctx context.Context, c *alloctest.Case, newAllocator NewAllocator, programs *cel.Cache) ([]resourceapi.AllocationResult, error) {
	node, err := nodeByName(c)
	if err != nil {
		return nil, err
	}
	a, err := newAllocator(ctx, structured.Features(c.Features), State(c), Classes(c.Classes), c.Slices, programs)
	if err != nil {
		return nil, err
	}
	return a.Allocate(ctx, node, c.Claims)
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
