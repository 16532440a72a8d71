// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// nodeSlices draws slices of a node: pools that miss slices, of several generations, with a name twice, or with counters.
func nodeSlices(random *rand.Rand) (list []*resourceapi.ResourceSlice) {
	node := "node"
	for i := range 1 + random.IntN(4) {
		s := &resourceapi.ResourceSlice{}
		s.Name = fmt.Sprint("slice-", i)
		s.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node}
		s.Spec.Pool = resourceapi.ResourcePool{Name: fmt.Sprint("pool-", random.IntN(2)), Generation: int64(1 + random.IntN(8)/7), ResourceSliceCount: int64(1 + random.IntN(2))}
		counters := map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("4")}}
		if random.IntN(4) == 0 {
			s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: counters}}
			list = append(list, s)
			continue
		}
		for d := range random.IntN(4) {
			device := resourceapi.Device{Name: fmt.Sprint("device-", d+3*random.IntN(2))}
			if random.IntN(3) == 0 {
				counters := map[string]resourceapi.Counter{"memory": {Value: *resource.NewQuantity(int64(1+random.IntN(4)), resource.DecimalSI)}}
				device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: counters}}
			}
			s.Spec.Devices = append(s.Spec.Devices, device)
		}
		list = append(list, s)
	}
	return list
}

// An inventory does not keep the pools of a node that is equivalent to another one. Its answers are the same.
func TestPoolsOfEquivalentNodesAreReadAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(29, 7))
	gates := allocator.AllFeatures().PoolGates()
	around := &Surroundings{Shared: NewSharedPools(gates, nil)}
	repeated, free, taken := 0, 0, 0
	for range 2000 {
		published := nodeSlices(random)
		readSet := emptyReadSet(gates, &stateCache{Bounds: usualBounds})
		first, other := NewInventory(gates, &corev1.Node{}, published), NewInventory(gates, &corev1.Node{}, published)
		first.State(readSet, nil)
		if other.State(readSet, nil) != first.State(readSet, nil) || first.indexed.Load() == nil || other.indexed.Load() != nil {
			t.Fatalf("the first node has its pools: %t, and the other one: %t", first.indexed.Load() != nil, other.indexed.Load() != nil)
		}
		for i := range first.Pools {
			for d := range 7 {
				id := pools.DeviceID{Driver: "gpu.example.com", Pool: first.Pools[i].ID.Name, Device: fmt.Sprint("device-", d)}
				want, wantFound := first.Position(id)
				if got, found := other.Position(id); found != wantFound || found && got != want {
					t.Fatalf("%s is at %d, %t; want %d, %t", id, got, found, want, wantFound)
				}
			}
			if first.Pools[i].Unusable != "" {
				repeated++
			}
		}
		if other.indexed.Load() != nil {
			t.Fatal("a look-up by name read the pools")
		}
		var uses Uses
		for d := range first.Size {
			if random.IntN(3) == 0 {
				uses = uses.Change([]Holding{{Device: d}}, true)
			}
		}
		want := maps.Collect(first.DeviceUses(uses))
		for _, use := range want {
			if use.Free {
				free++
			} else {
				taken++
			}
		}
		tainted := other.Tainted(nil, resourceapi.DeviceTaint{})
		for i, inv := range []*Inventory{tainted, other} {
			name := []string{"with a taint", "without"}[i]
			if diff := cmp.Diff(want, maps.Collect(inv.DeviceUses(uses))); diff != "" {
				t.Fatalf("%s: what becomes of devices (-want +got):\n%s", name, diff)
			}
			if got, want := MostDevices([]NodeUse{{inv, uses}}, around), MostDevices([]NodeUse{{first, uses}}, around); got != want {
				t.Fatalf("%s: at most %d devices, want %d", name, got, want)
			}
		}
		if other.indexed.Load() == nil || tainted.indexed.Load() != nil {
			t.Fatal("a node with taints of a what-if has pools of its own")
		}
		wider := readSet.with(&questionReads{all: true})
		if other.State(wider, uses) != first.State(wider, uses) {
			t.Fatal("the nodes are in different states for a wider read set")
		}
	}
	if repeated < 500 || free < 500 || taken < 500 {
		t.Errorf("%d pools cannot be used, %d devices are free and %d are not: too few", repeated, free, taken)
	}
}
