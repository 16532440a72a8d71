// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/pools"
)

const (
	memoryNodes  = 5000
	memoryClaims = 36_000
	// memoryLimit is what Dray may take on the heap for such a cluster, beyond the API
	// objects, which are the caller's.
	memoryLimit = 60 << 20
)

// holdings returns claims that hold one GPU each, over all nodes in turn.
func holdings(nodes, claims int) []*resourceapi.ResourceClaim {
	list := make([]*resourceapi.ResourceClaim, claims)
	for i := range list {
		claim := gpuClaim("H100")
		claim.Name, claim.UID = fmt.Sprintf("claim-%d", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: gpuDriver, Pool: fmt.Sprintf("node-%d", i%nodes), Device: fmt.Sprintf("gpu-%d", i/nodes),
			}},
		}}
		list[i] = claim
	}
	return list
}

// gpuClaim is a claim for one GPU of a model.
func gpuClaim(model string) *resourceapi.ResourceClaim {
	return newClaim("pending", request("gpu", "gpu", 1, fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q`, model)))
}

// heap is what is reachable, in bytes.
func heap() int64 {
	// Twice: cleanups and pools let go of some objects in the second collection only.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// held is what Dray keeps of a cluster.
type held struct {
	ledger    *pools.Ledger
	allocator *allocator.Allocator
}

func hold(t testing.TB, c *alloctest.Case) held {
	t.Helper()
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Assume(claim); err != nil {
			t.Fatal(err)
		}
	}
	return held{ledger, allocator.New(allocator.Options{Features: c.Features})}
}

// ask counts the nodes on which the pod of a case fits.
func (h held) ask(t testing.TB, c *alloctest.Case) (fits int) {
	t.Helper()
	problem, err := h.allocator.Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes {
		outcome, err := problem.Allocate(context.Background(), h.ledger.State(), node)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := outcome.(*allocator.Assignment); ok {
			fits++
		}
	}
	return fits
}

// A cluster of 5000 nodes with 40,000 GPUs, of which 36,000 are allocated by a claim each,
// takes no more than the limit, and neither does asking it for two pods on every node.
func TestMemory(t *testing.T) {
	before := heap()
	c := fleet(memoryNodes, func(cluster, int) {}).Case
	c.Claims = []*resourceapi.ResourceClaim{gpuClaim("H100")}
	c.Allocated = holdings(memoryNodes, memoryClaims)
	objects := heap() - before
	h := hold(t, c)
	index := heap() - before - objects
	free := memoryNodes*gpusPerNode - memoryClaims
	if fits := h.ask(t, c); fits != free {
		t.Errorf("the pod fits %d nodes, want %d", fits, free)
	}
	c.Claims = []*resourceapi.ResourceClaim{gpuClaim("B200")}
	if fits := h.ask(t, c); fits != 0 {
		t.Errorf("a pod for which there is nothing fits %d nodes", fits)
	}
	asked := heap() - before - objects
	t.Logf("API objects (the caller's): %s", mebibytes(objects))
	t.Logf("snapshot and ledger: %s", mebibytes(index))
	t.Logf("the same after two pods were asked for on all nodes: %s", mebibytes(asked))
	if max(index, asked) > memoryLimit {
		t.Errorf("that is more than %s", mebibytes(memoryLimit))
	}
	runtime.KeepAlive(h)
	runtime.KeepAlive(c)
}
