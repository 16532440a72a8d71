// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

// States need not come from a scheduler. Devices may be in use in several ways at once, with capacity but no
// share, or shares but no capacity, even if they allow no shares. The facade reads such states as upstream
// does.
func TestStatesThatNoSchedulerMakes(t *testing.T) {
	var allocated int
	for seed := range uint64(400) {
		c := clustergen.Generate(seed, clustergen.Default)
		state := randomState(c, rand.New(rand.NewPCG(seed, 1)))
		// First without shares, lest what is known of the devices as a whole is taken for all.
		allocated += compareState(t, seed, c, structured.AllocatedState{AllocatedDevices: state.AllocatedDevices}, 1)
		allocated += compareState(t, seed, c, state, 1)
	}
	if allocated < 100 {
		t.Errorf("only %d allocations: the states leave too little to compare", allocated)
	}
}

// often is more than what it takes for a question to be worth remembering.
const often = 20

// Devices that are in use as a whole are asked about one by one, in an order that earlier
// states led to.
func TestStatesOfWholeDevices(t *testing.T) {
	var allocated int
	for seed := range uint64(100) {
		c := clustergen.Generate(seed, clustergen.Default)
		random := rand.New(rand.NewPCG(seed, 2))
		for range 4 {
			allocated += compareState(t, seed, c, wholeDevices(c, random), often)
		}
	}
	if allocated < 100 {
		t.Errorf("only %d allocations: the states leave too little to compare", allocated)
	}
}

const fourOf24 = `
cluster
node node-1
class gpu
slice gpu.example.com/node-1 on node-1
  gpu-[0..23]
----

allocate four node=node-1
claim four
  request gpus class=gpu count=4
----
four/gpus -> gpu.example.com/node-1/gpu-[0..3]
four on node-1
`

// There may be more ways for devices to be in use than are remembered.
func TestManyStatesOfWholeDevices(t *testing.T) {
	scenarios, err := alloctest.Parse("four.txt", fourOf24)
	if err != nil {
		t.Fatal(err)
	}
	c, random := scenarios[0].Case, rand.New(rand.NewPCG(1, 3))
	var allocated int
	for range 600 {
		allocated += compareState(t, 0, c, wholeDevices(c, random), 1)
	}
	if allocated < 500 {
		t.Errorf("only %d allocations", allocated)
	}
}

// patience is how long Dray may take for what takes it milliseconds, on a machine that has other things to do.
const patience = time.Minute

// compareState compares the last of some answers with upstream's and counts the allocations.
func compareState(t *testing.T, seed uint64, c *alloctest.Case, state structured.AllocatedState, times int) (allocated int) {
	for i := range c.Nodes {
		c.Node = c.Nodes[i].Name
		want, wantErr := answer(t, time.Second, upstream.NewAllocator, c, state, i)
		if clustergen.Decision(c) != "" || errors.Is(wantErr, context.DeadlineExceeded) {
			continue // upstream's answer is not the norm, or not known
		}
		var got []resourceapi.AllocationResult
		var gotErr error
		for range times {
			got, gotErr = answer(t, patience, structured.NewAllocator, c, state, i)
		}
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("seed %d, node %s: error %v, upstream's %v", seed, c.Nodes[i].Name, gotErr, wantErr)
			continue
		}
		if diff := oracle.Equal(want, got); diff != "" {
			t.Errorf("seed %d, node %s: %s", seed, c.Nodes[i].Name, diff)
		}
		if want != nil {
			allocated++
		}
	}
	return allocated
}

func wholeDevices(c *alloctest.Case, random *rand.Rand) structured.AllocatedState {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}
	for _, slice := range c.Slices {
		for i := range slice.Spec.Devices {
			if random.IntN(3) == 0 {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name))
			}
		}
	}
	return state
}

func answer(t *testing.T, limit time.Duration, newAllocator peer.NewAllocator, c *alloctest.Case, state structured.AllocatedState, node int) ([]resourceapi.AllocationResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	a, err := newAllocator(ctx, structured.Features(c.Features), state, classes(c.Classes), c.Slices, programs(c))
	if err != nil {
		t.Fatal(err)
	}
	return a.Allocate(ctx, c.Nodes[node], c.Claims)
}

func randomState(c *alloctest.Case, random *rand.Rand) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, slice := range c.Slices {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
			if random.IntN(8) == 0 {
				state.AllocatedDevices.Insert(id)
			}
			if random.IntN(6) == 0 {
				share := ptr.To(types.UID(fmt.Sprint("share-", random.IntN(100))))
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, share))
			}
			if random.IntN(6) == 0 {
				state.AggregatedCapacity[id] = someOf(device, random)
			}
		}
	}
	return state
}

// someOf is a part of each capacity of a device, perhaps of none.
func someOf(device *resourceapi.Device, random *rand.Rand) structured.ConsumedCapacity {
	consumed := make(structured.ConsumedCapacity)
	for name, capacity := range device.Capacity {
		if random.IntN(3) > 0 {
			part := capacity.Value.DeepCopy()
			part.SetMilli(max(part.MilliValue()/int64(1+random.IntN(4)), 1))
			consumed[name] = &part
		}
	}
	return consumed
}

// A cluster that nobody asks about any more is not kept alive.
func TestDeadClustersAreCollected(t *testing.T) {
	var slices []weak.Pointer[resourceapi.ResourceSlice]
	func() {
		for seed := range uint64(10) {
			c := clustergen.Generate(seed, clustergen.Default)
			for i := range c.Nodes {
				if _, err := answer(t, patience, structured.NewAllocator, c, peer.State(c), i); err != nil {
					t.Log(err) // an answer as good as any here
				}
			}
			for _, slice := range c.Slices {
				slices = append(slices, weak.Make(slice))
			}
		}
	}()
	alive := 1
	for deadline := time.Now().Add(patience); alive > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) { // in which cleanups run
		runtime.GC()
		alive = 0
		for _, slice := range slices {
			if slice.Value() != nil {
				alive++
			}
		}
	}
	if alive > 0 {
		t.Errorf("%d of %d slices are still alive", alive, len(slices))
	}
}

func programs(c *alloctest.Case) *cel.Cache {
	return cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: c.Features.ConsumableCapacity,
		EnableListTypeAttributes: c.Features.ListTypeAttributes,
	})
}
