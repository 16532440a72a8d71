// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// gpuSlice is what a driver publishes for one node.
func gpuSlice(node string, sliceCount int64, devices ...string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   "gpu.example.com",
			Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: sliceCount},
			NodeName: ptr.To(node),
		},
	}
	for _, name := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name})
	}
	return slice
}

func ExampleBuild() {
	snapshot := pools.Build(pools.Gates{PartitionableDevices: true}, []*resourceapi.ResourceSlice{
		gpuSlice("worker-1", 1, "gpu-0", "gpu-1"),
		gpuSlice("worker-2", 2, "gpu-0"),
	})
	for pool := range snapshot.Pools() {
		fmt.Printf("%s: devices: %d, incomplete: %q\n", pool.ID(), pool.Len(), pool.Incomplete())
	}
	// Output:
	// gpu.example.com/worker-1: devices: 2, incomplete: ""
	// gpu.example.com/worker-2: devices: 1, incomplete: "1 of 2 slices of generation 1 present"
}

func ExampleBuilder() {
	builder := pools.NewBuilder(pools.Gates{})
	builder.Set(gpuSlice("worker-1", 1, "gpu-0"), gpuSlice("worker-2", 1, "gpu-0"))
	before := builder.Snapshot()

	builder.Set(gpuSlice("worker-2", 1, "gpu-0", "gpu-1"))
	after := builder.Snapshot()

	for _, name := range []string{"worker-1", "worker-2"} {
		id := pools.PoolID{Driver: "gpu.example.com", Name: name}
		old, _ := before.Pool(id)
		now, _ := after.Pool(id)
		fmt.Println(name, "is shared:", old == now)
	}
	// Output:
	// worker-1 is shared: true
	// worker-2 is shared: false
}

func ExampleSnapshot_GatherPools() {
	snapshot := pools.Build(pools.Gates{}, []*resourceapi.ResourceSlice{
		gpuSlice("worker-1", 1, "gpu-0", "gpu-1"),
		gpuSlice("worker-2", 1, "gpu-0"),
	})
	view, err := snapshot.GatherPools(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for seen := range view.Pools() {
		for device := range seen.Devices() {
			fmt.Println(device.ID())
		}
	}
	// Output:
	// gpu.example.com/worker-1/gpu-0
	// gpu.example.com/worker-1/gpu-1
}

func ExampleLedger_Branch() {
	snapshot := pools.Build(pools.Gates{}, []*resourceapi.ResourceSlice{gpuSlice("worker-1", 1, "gpu-0")})
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "training", UID: "1"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: "gpu.example.com", Pool: "worker-1", Device: "gpu-0"},
		},
	}}
	inUse := func(ledger *pools.Ledger) (used bool) {
		for pool := range ledger.State().Snapshot().Pools() {
			for device := range pool.Devices() {
				used = used || ledger.State().Pool(pool).InUse(device)
			}
		}
		return used
	}

	ledger := pools.NewLedger(snapshot)
	whatIf := ledger.Branch()
	if err := whatIf.Assume(claim); err != nil {
		fmt.Println(err)
	}
	fmt.Println("in the branch:", inUse(whatIf))
	fmt.Println("in the ledger:", inUse(ledger))

	if err := whatIf.Commit(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("after the commit:", inUse(ledger))
	// Output:
	// in the branch: true
	// in the ledger: false
	// after the commit: true
}

// Who gets the whole list of slices each time, and not what changed, uses an Index.
func ExampleIndex() {
	index := pools.NewIndex(pools.Gates{})
	slices := []*resourceapi.ResourceSlice{gpuSlice("worker-1", 1, "gpu-0"), gpuSlice("worker-2", 1, "gpu-0")}
	first := index.Snapshot(slices)
	again := index.Snapshot([]*resourceapi.ResourceSlice{slices[1], slices[0]})
	changed := index.Snapshot([]*resourceapi.ResourceSlice{slices[0], gpuSlice("worker-2", 2, "gpu-0", "gpu-1")})
	same := func(pool string) bool {
		id := pools.PoolID{Driver: "gpu.example.com", Name: pool}
		before, _ := first.Pool(id)
		after, _ := changed.Pool(id)
		return before == after
	}
	fmt.Println(first == again, same("worker-1"), same("worker-2"))
	// Output: true true false
}
