package simulate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// room is one node with the slices that reach it, and nothing else of the cluster. What is
// allocated there stands for all nodes that have the same content.
type room struct {
	node  *corev1.Node
	empty *pools.State
}

func newRoom(gates pools.Gates, node *corev1.Node, slices []*resourceapi.ResourceSlice) *room {
	return &room{node: node, empty: pools.NewState(pools.Build(gates, slices))}
}

// taken is how a device is in use, by its name.
type taken struct {
	device pools.DeviceID
	use
}

// allocate asks the allocator about the node of the room.
func (r *room) allocate(ctx context.Context, problem *allocator.Problem, inUse []taken) (allocator.Outcome, error) {
	state := r.empty
	if len(inUse) > 0 {
		var err error
		if state, err = r.empty.Assume(holder(inUse)); err != nil {
			return nil, fmt.Errorf("node %s: %w", r.node.Name, err)
		}
	}
	return problem.Allocate(ctx, state, r.node)
}

// holder is a claim that has everything allocated that is in use.
func holder(inUse []taken) *resourceapi.ResourceClaim {
	results := make([]resourceapi.DeviceRequestAllocationResult, 0, len(inUse))
	for i := range inUse {
		t := &inUse[i]
		result := resourceapi.DeviceRequestAllocationResult{Driver: t.device.Driver, Pool: t.device.Pool, Device: t.device.Device}
		if t.wholes > 0 {
			results = append(results, result)
		}
		if t.shares > 0 {
			// What all shares hold counts, not how many there are.
			share := types.UID("share")
			result.ShareID, result.ConsumedCapacity = &share, t.consumed
			results = append(results, result)
		}
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.UID = "in-use", "in-use"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
	return claim
}

// poolFacts is what this package reads of a pool.
type poolFacts struct {
	id      pools.PoolID
	slices  []*resourceapi.ResourceSlice
	devices []*resourceapi.Device
	sliceOf []int32 // by device: position in slices
	usable  bool
	lookup  func(device string) (int32, bool)
}

// factsOf reads a pool of a snapshot. The devices are those of the highest generation.
func factsOf(p *pool.Pool) *poolFacts {
	f := &poolFacts{
		id: pools.PoolID(p.ID), usable: p.Incomplete == "" && p.Invalid == "",
		lookup: func(device string) (int32, bool) {
			found := p.Lookup(device)
			if len(found) == 0 {
				return 0, false
			}
			return int32(found[0]), true
		},
	}
	names := make(map[string]bool, len(p.Devices))
	position := make(map[*pool.Slice]int32)
	for _, slice := range p.Slices {
		position[slice] = int32(len(f.slices))
		f.slices = append(f.slices, slice.Object)
	}
	for i := range p.Devices {
		name := p.Devices[i].Object.Name
		f.usable, names[name] = f.usable && !names[name], true
		f.devices = append(f.devices, p.Devices[i].Object)
		f.sliceOf = append(f.sliceOf, position[p.Devices[i].Slice])
	}
	return f
}

// readPools returns the pools of slices, sorted by driver and name.
func readPools(gates pools.Gates, slices []*resourceapi.ResourceSlice) []*poolFacts {
	all := cluster.Build(pool.Gates(gates), slices).Pools()
	facts := make([]*poolFacts, len(all))
	for i, p := range all {
		facts[i] = factsOf(p)
	}
	return facts
}

// reach finds out which of the pools that no single node has reach a node.
type reach struct{ snapshot *cluster.Snapshot }

func newReach(gates pools.Gates, slices []*resourceapi.ResourceSlice) reach {
	return reach{cluster.Build(pool.Gates(gates), slices)}
}

// of lists what reaches a node, by pool. Nodes with an equal number reach the same of the pool.
func (r reach) of(node *corev1.Node) (map[pools.PoolID]uint64, error) {
	view, err := r.snapshot.GatherPools(node)
	if err != nil {
		return nil, err
	}
	numbers := make(map[pools.PoolID]uint64, len(view.Pools))
	for _, v := range view.Pools {
		numbers[pools.PoolID(v.Pool.ID)] = v.Serial()
	}
	return numbers, nil
}
