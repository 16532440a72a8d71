package structured

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// NewAllocator returns an allocator for the given cluster state. It is thread-safe and
// can be used for any number of nodes and claims, as long as the state, classes and
// slices are not modified. The error is always nil; it is part of upstream's signature.
func NewAllocator(
	ctx context.Context,
	features Features,
	allocatedState AllocatedState,
	classLister DeviceClassLister,
	slices []*resourceapi.ResourceSlice,
	celCache *cel.Cache,
) (Allocator, error) {
	own := allocator.Features(features)
	return &facade{
		core:     coreFor(own),
		snapshot: pools.Build(own.PoolGates(), slices),
		usage:    newUsage(allocatedState),
		classes:  classLister,
	}, nil
}

// facade answers in upstream's terms.
type facade struct {
	core     *allocator.Allocator
	snapshot *pools.Snapshot
	usage    *usage
	classes  DeviceClassLister
}

// Allocate implements Allocator.
func (f *facade) Allocate(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	problem, err := f.core.Compile(claims, f.classes)
	if err != nil {
		return nil, err
	}
	outcome, err := problem.Allocate(ctx, f.snapshot, f.usage, node)
	if err != nil {
		return nil, err
	}
	switch answer := outcome.(type) {
	case *allocator.Assignment:
		return answer.Results(), nil
	case *allocator.Unsatisfiable:
		if answer.InvalidPools() {
			return nil, fmt.Errorf("node %s has invalid resource pools%w", node.Name, ErrFailedAllocationOnNode)
		}
		return nil, nil
	case *allocator.Undecided:
		return nil, fmt.Errorf("%s%w", answer, ErrFailedAllocationOnNode)
	}
	return nil, fmt.Errorf("unknown outcome %T", outcome)
}

// cores are the allocators of this process by features, so that compiled expressions
// and remembered results outlive the allocator of one pod.
var cores sync.Map

func coreFor(features allocator.Features) *allocator.Allocator {
	if core, ok := cores.Load(features); ok {
		return core.(*allocator.Allocator)
	}
	core, _ := cores.LoadOrStore(features, allocator.New(allocator.Options{
		Features: features,
		ShareID:  func() types.UID { return uuid.NewUUID() },
	}))
	return core.(*allocator.Allocator)
}
