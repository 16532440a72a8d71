// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/pools"
)

// benchSizes are numbers of nodes, each with a slice of eight devices.
var benchSizes = []int{100, 5000}

func benchSlices(nodes int) (all []*resourceapi.ResourceSlice) {
	for n := range nodes {
		name, model := fmt.Sprintf("node-%d", n), "H100"
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		}}
		for i := range 8 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
			})
		}
		all = append(all, slice)
	}
	return all
}

// benchClaim is the n-th claim, which has a device.
func benchClaim(n, nodes int) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("claim-", n), UID: types.UID(fmt.Sprint(n))}}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: "gpu.example.com", Pool: fmt.Sprint("node-", n/8%nodes), Device: fmt.Sprint("gpu-", n%8)},
	}}}
	return c
}

// BenchmarkBuild indexes the slices of a cluster that nobody has seen before.
func BenchmarkBuild(b *testing.B) {
	for _, nodes := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			all := benchSlices(nodes)
			b.ReportAllocs()
			for b.Loop() {
				pools.Build(pools.Gates{}, all)
			}
			b.ReportMetric(float64(b.N*nodes)/b.Elapsed().Seconds(), "slices/s")
		})
	}
}

// BenchmarkChange follows a cluster in which one slice changes.
func BenchmarkChange(b *testing.B) {
	for _, nodes := range benchSizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			all := benchSlices(nodes)
			index := pools.NewIndex(pools.Gates{})
			index.Snapshot(all)
			other := all[0].DeepCopy()
			b.ReportAllocs()
			for b.Loop() {
				all[0], other = other, all[0]
				index.Snapshot(all)
			}
		})
	}
}

// mostInUse is a ledger of a cluster of which three of four devices are in use.
func mostInUse(b *testing.B, nodes int) *pools.Ledger {
	b.Helper()
	ledger := pools.NewLedger(pools.Build(pools.Gates{}, benchSlices(nodes)))
	for n := range 6 * nodes {
		if err := ledger.Assume(benchClaim(n, nodes)); err != nil {
			b.Fatal(err)
		}
	}
	return ledger
}

// BenchmarkLedger takes the devices of the claims of one pod and frees them again, in a cluster of which three of four devices
// are in use.
func BenchmarkLedger(b *testing.B) {
	for _, nodes := range benchSizes {
		for _, claims := range []int{1, 3} {
			b.Run(fmt.Sprintf("claims=%d/nodes=%d", claims, nodes), func(b *testing.B) {
				ledger := mostInUse(b, nodes)
				var pod []*resourceapi.ResourceClaim
				for n := range claims {
					pod = append(pod, benchClaim(7*nodes+n, nodes))
				}
				b.ReportAllocs()
				for b.Loop() {
					for _, claim := range pod {
						if err := ledger.Assume(claim); err != nil {
							b.Fatal(err)
						}
					}
					for _, claim := range pod {
						if err := ledger.Forget(claim); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N*claims)/b.Elapsed().Seconds(), "claims/s")
			})
		}
	}
}

// BenchmarkBranch asks what would be if one more claim had its device, in the same cluster. Upstream has its state copied.
func BenchmarkBranch(b *testing.B) {
	for _, nodes := range benchSizes {
		claim := benchClaim(7*nodes, nodes)
		b.Run(fmt.Sprintf("nodes=%d/impl=upstream", nodes), func(b *testing.B) {
			state := upstream.AllocatedState{
				AllocatedDevices: sets.New[upstream.DeviceID](), AllocatedSharedDeviceIDs: sets.New[upstream.SharedDeviceID](),
				AggregatedCapacity: upstream.NewConsumedCapacityCollection(),
			}
			for n := range 6 * nodes {
				insert(&state, benchClaim(n, nodes))
			}
			b.ReportAllocs()
			for b.Loop() {
				branched := upstream.AllocatedState{
					AllocatedDevices: state.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs.Clone(),
					AggregatedCapacity: state.AggregatedCapacity.Clone(),
				}
				insert(&branched, claim)
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/impl=dray", nodes), func(b *testing.B) {
			ledger := mostInUse(b, nodes)
			b.ReportAllocs()
			for b.Loop() {
				if err := ledger.Branch().Assume(claim); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func insert(state *upstream.AllocatedState, claim *resourceapi.ResourceClaim) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		state.AllocatedDevices.Insert(upstream.MakeDeviceID(result.Driver, result.Pool, result.Device))
	}
}
