// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
)

const (
	fleetNodes  = 5000
	nodeDevices = 8
)

// fleetSlice is a node with eight GPUs that differ in their UUIDs only.
func fleetSlice(n int) *resourceapi.ResourceSlice {
	s := given.Slice(fmt.Sprintf("slice-%04d", n), fmt.Sprintf("node-%04d", n), given.OnNode(fmt.Sprintf("node-%04d", n)))
	for i := range nodeDevices {
		uuid, model, index, ok := fmt.Sprintf("GPU-%04d-%d", n, i), "H100", int64(i), true
		given.Device(fmt.Sprintf("gpu-%d", i),
			given.Attribute("uuid", resourceapi.DeviceAttribute{StringValue: &uuid}),
			given.Attribute("model", resourceapi.DeviceAttribute{StringValue: &model}),
			given.Attribute("index", resourceapi.DeviceAttribute{IntValue: &index}),
			given.Attribute("ecc", resourceapi.DeviceAttribute{BoolValue: &ok}),
			given.Capacity("memory", "80Gi"))(s)
	}
	return s
}

func fleet() (list []*resourceapi.ResourceSlice, nodes []*corev1.Node) {
	for n := range fleetNodes {
		list = append(list, fleetSlice(n))
		nodes = append(nodes, given.Node(fmt.Sprintf("node-%04d", n)))
	}
	return append(list, given.Slice("network", "network", given.Selecting(given.InZone("a")), given.Devices("nic"))), nodes
}

func BenchmarkBuild(b *testing.B) {
	list, _ := fleet()
	b.ReportAllocs()
	for b.Loop() {
		Build(everything, list)
	}
}

func BenchmarkChangeOneSlice(b *testing.B) {
	list, _ := fleet()
	builder := NewBuilder(everything)
	builder.Set(list...)
	builder.Snapshot()
	versions := []*resourceapi.ResourceSlice{list[2500], list[2500].DeepCopy()}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		builder.Set(versions[i%2])
		builder.Snapshot()
	}
}

// BenchmarkFollowOneSlice is what a change of one slice costs until allocations see it.
func BenchmarkFollowOneSlice(b *testing.B) {
	u := fleetState(b)
	list, _ := fleet()
	builder := NewBuilder(everything)
	builder.Set(list...)
	u = u.Rebase(builder.Snapshot())
	versions := []*resourceapi.ResourceSlice{list[2500], list[2500].DeepCopy()}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		builder.Set(versions[i%2])
		u = u.Rebase(builder.Snapshot())
	}
}

func BenchmarkGatherPools(b *testing.B) {
	list, nodes := fleet()
	s := Build(everything, list)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.GatherPools(nodes[i%len(nodes)]); err != nil {
			b.Fatal(err)
		}
	}
}

func fleetClaim(n int) *resourceapi.ResourceClaim {
	return given.Claim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("gpu-%d", n%nodeDevices)}, given.InPool(fmt.Sprintf("node-%04d", n/nodeDevices)))
}

// assume has claims numbered from 0 on allocated.
func assume(b *testing.B, u *State, claims int, claim func(n int) *resourceapi.ResourceClaim) *State {
	for n := range claims {
		next, err := u.Assume(claim(n))
		if err != nil {
			b.Fatal(err)
		}
		u = next
	}
	return u
}

func fleetState(b *testing.B) *State {
	list, _ := fleet()
	return assume(b, NewState(Build(everything, list)), fleetNodes*nodeDevices/2, fleetClaim)
}

// assumeAndForget measures one more claim.
func assumeAndForget(b *testing.B, u *State, claim *resourceapi.ResourceClaim) {
	b.ReportAllocs()
	for b.Loop() {
		next, err := u.Assume(claim)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := next.Forget(claim); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkState(b *testing.B) {
	u := fleetState(b)
	b.Run("AssumeForget", func(b *testing.B) { assumeAndForget(b, u, fleetClaim(fleetNodes*nodeDevices-1)) })
	b.Run("UsageOfAllPools", func(b *testing.B) {
		for b.Loop() {
			for _, p := range u.Snapshot().Pools() {
				u.Pool(p).InUse(0)
			}
		}
	})
	b.Run("RebaseOnEqualPools", func(b *testing.B) {
		for b.Loop() {
			u.Rebase(u.Snapshot())
		}
	})
}

// sharedState has devices that allow shares, a hundred to a slice, all of which have some.
func sharedState(b *testing.B, nics, shares int) *State {
	var list []*resourceapi.ResourceSlice
	for first := 0; first < nics; first += 100 {
		pool := fmt.Sprintf("network-%d", first/100)
		slice := given.Slice(pool, pool, given.Everywhere)
		for i := range 100 {
			given.Device(fmt.Sprintf("nic-%d", i), given.Multiple, given.Capacity("bandwidth", "1000G"))(slice)
		}
		list = append(list, slice)
	}
	return assume(b, NewState(Build(everything, list)), nics*shares, func(n int) *resourceapi.ResourceClaim { return sharedClaim(n, nics) })
}

func sharedClaim(n, nics int) *resourceapi.ResourceClaim {
	nic := n % nics
	return given.Claim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("nic-%d", nic%100)},
		given.InPool(fmt.Sprintf("network-%d", nic/100)), given.Share(fmt.Sprint("share-", n), "1G"))
}

// BenchmarkShares has 400,000 shares in use, a hundred of each device.
func BenchmarkShares(b *testing.B) {
	const nics, shares = 4000, 100
	assumeAndForget(b, sharedState(b, nics, shares), sharedClaim(nics*shares, nics))
}
