package pools

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

const (
	fleetNodes  = 5000
	nodeDevices = 8
)

// fleetSlice is a node with eight GPUs that differ in their UUIDs only.
func fleetSlice(n int) *resourceapi.ResourceSlice {
	s := newSlice(fmt.Sprintf("slice-%04d", n), fmt.Sprintf("node-%04d", n), onNode(fmt.Sprintf("node-%04d", n)))
	for i := range nodeDevices {
		uuid, model, index, ok := fmt.Sprintf("GPU-%04d-%d", n, i), "H100", int64(i), true
		device(fmt.Sprintf("gpu-%d", i),
			attribute("uuid", resourceapi.DeviceAttribute{StringValue: &uuid}),
			attribute("model", resourceapi.DeviceAttribute{StringValue: &model}),
			attribute("index", resourceapi.DeviceAttribute{IntValue: &index}),
			attribute("ecc", resourceapi.DeviceAttribute{BoolValue: &ok}),
			capacity("memory", "80Gi"))(s)
	}
	return s
}

func fleet() (list []*resourceapi.ResourceSlice, nodes []*corev1.Node) {
	for n := range fleetNodes {
		list = append(list, fleetSlice(n))
		nodes = append(nodes, newNode(fmt.Sprintf("node-%04d", n)))
	}
	return append(list, newSlice("network", "network", selecting(inZone("a")), devices("nic"))), nodes
}

func BenchmarkBuild(b *testing.B) {
	list, _ := fleet()
	b.ReportAllocs()
	for b.Loop() {
		Build(allGates, list)
	}
}

func BenchmarkChangeOneSlice(b *testing.B) {
	list, _ := fleet()
	builder := NewBuilder(allGates)
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
	builder := NewBuilder(allGates)
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
	s := Build(allGates, list)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.GatherPools(nodes[i%len(nodes)]); err != nil {
			b.Fatal(err)
		}
	}
}

func fleetClaim(n int) *resourceapi.ResourceClaim {
	return newClaim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("gpu-%d", n%nodeDevices)}, inPool(fmt.Sprintf("node-%04d", n/nodeDevices)))
}

func fleetLedger(b *testing.B) *Ledger {
	list, _ := fleet()
	l := NewLedger(Build(allGates, list))
	for n := range fleetNodes * nodeDevices / 2 {
		if err := l.Allocate(fleetClaim(n)); err != nil {
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
			if l.Allocate(claim) != nil || l.Release(claim) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("UsageOfAllPools", func(b *testing.B) {
		for b.Loop() {
			usage := l.Usage()
			for _, p := range l.Snapshot().Pools() {
				usage.Pool(p).InUse(0)
			}
		}
	})
	b.Run("RebaseOnEqualPools", func(b *testing.B) {
		s := l.Snapshot()
		for b.Loop() {
			l.Rebase(s)
		}
	})
}

// BenchmarkIndex is what a caller pays who has a list of slices for each pod.
func BenchmarkIndex(b *testing.B) {
	list, _ := fleet()
	shuffled := slices.Clone(list)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	changed := func(list []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
		changed := slices.Clone(list)
		changed[2500] = changed[2500].DeepCopy()
		return changed
	}
	for _, bench := range []struct {
		name  string
		lists [][]*resourceapi.ResourceSlice
	}{
		{"same", [][]*resourceapi.ResourceSlice{list}},
		{"shuffled", [][]*resourceapi.ResourceSlice{list, shuffled}},
		{"one-changed", [][]*resourceapi.ResourceSlice{list, changed(list)}},
		{"one-changed-shuffled", [][]*resourceapi.ResourceSlice{list, changed(shuffled)}},
	} {
		b.Run("list="+bench.name, func(b *testing.B) {
			index := NewIndex(allGates)
			index.Snapshot(list)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				index.Snapshot(bench.lists[i%len(bench.lists)])
			}
		})
	}
}

// sharedNICs has devices that allow shares, a hundred to a slice, and a ledger in which
// all of them have some.
func sharedLedger(b *testing.B, nics, shares int) *Ledger {
	var list []*resourceapi.ResourceSlice
	for first := 0; first < nics; first += 100 {
		pool := fmt.Sprintf("network-%d", first/100)
		slice := newSlice(pool, pool, everywhere)
		for i := range 100 {
			device(fmt.Sprintf("nic-%d", i), multiple, capacity("bandwidth", "1000G"))(slice)
		}
		list = append(list, slice)
	}
	l := NewLedger(Build(allGates, list))
	for n := range nics * shares {
		if err := l.Allocate(sharedClaim(n, nics)); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func sharedClaim(n, nics int) *resourceapi.ResourceClaim {
	nic := n % nics
	return newClaim(fmt.Sprint("claim-", n), []string{fmt.Sprintf("nic-%d", nic%100)},
		inPool(fmt.Sprintf("network-%d", nic/100)), share(fmt.Sprint("share-", n), "1G"))
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
			if err := fork.Allocate(claim); err != nil {
				b.Fatal(err)
			}
			fork.Revert()
		}
	})
	b.Run("ForkAllocateReleaseCommit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fork := l.Fork()
			if fork.Allocate(claim) != nil || fork.Release(claim) != nil || fork.Commit() != nil {
				b.Fatal("refused")
			}
		}
	})
}
