package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/given"
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
	l := fleetLedger(b)
	list, _ := fleet()
	builder := NewBuilder(everything)
	builder.Set(list...)
	l.Rebase(builder.Snapshot())
	versions := []*resourceapi.ResourceSlice{list[2500], list[2500].DeepCopy()}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		builder.Set(versions[i%2])
		l.Rebase(builder.Snapshot())
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

func fleetLedger(b *testing.B) *Ledger {
	list, _ := fleet()
	l := NewLedger(Build(everything, list))
	for n := range fleetNodes * nodeDevices / 2 {
		if err := l.Assume(fleetClaim(n)); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func BenchmarkLedger(b *testing.B) {
	l := fleetLedger(b)
	claim := fleetClaim(fleetNodes*nodeDevices - 1)
	b.Run("Fork", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Fork()
		}
	})
	b.Run("AllocateRelease", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if l.Assume(claim) != nil || l.Forget(claim) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("UsageOfAllPools", func(b *testing.B) {
		for b.Loop() {
			usage := l.State()
			for _, p := range l.State().Snapshot().Pools() {
				usage.Pool(p).InUse(0)
			}
		}
	})
	b.Run("RebaseOnEqualPools", func(b *testing.B) {
		s := l.State().Snapshot()
		for b.Loop() {
			l.Rebase(s)
		}
	})
}

// sharedNICs has devices that allow shares, a hundred to a slice, and a ledger in which
// all of them have some.
func sharedLedger(b *testing.B, nics, shares int) *Ledger {
	var list []*resourceapi.ResourceSlice
	for first := 0; first < nics; first += 100 {
		pool := fmt.Sprintf("network-%d", first/100)
		slice := given.Slice(pool, pool, given.Everywhere)
		for i := range 100 {
			given.Device(fmt.Sprintf("nic-%d", i), given.Multiple, given.Capacity("bandwidth", "1000G"))(slice)
		}
		list = append(list, slice)
	}
	l := NewLedger(Build(everything, list))
	for n := range nics * shares {
		if err := l.Assume(sharedClaim(n, nics)); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func sharedClaim(n, nics int) *resourceapi.ResourceClaim {
	nic := n % nics
	return given.Claim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("nic-%d", nic%100)},
		given.InPool(fmt.Sprintf("network-%d", nic/100)), given.Share(fmt.Sprint("share-", n), "1G"))
}

// BenchmarkShares has 400,000 shares in use, a hundred of each device.
func BenchmarkShares(b *testing.B) {
	const nics, shares = 4000, 100
	l := sharedLedger(b, nics, shares)
	claim := sharedClaim(nics*shares, nics)
	b.Run("Fork", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Fork()
		}
	})
	b.Run("ForkAllocateRevert", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fork := l.Fork()
			if err := fork.Assume(claim); err != nil {
				b.Fatal(err)
			}
			fork.Revert()
		}
	})
	b.Run("ForkAllocateReleaseCommit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fork := l.Fork()
			if fork.Assume(claim) != nil || fork.Forget(claim) != nil || fork.Commit() != nil {
				b.Fatal("refused")
			}
		}
	})
}
