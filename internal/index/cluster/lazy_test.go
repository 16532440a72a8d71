// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// countedUsage is that the device d of each pool is in use.
type countedUsage struct{ computed *atomic.Int64 }

func (u countedUsage) Pool(p *pool.Pool) *pool.Usage {
	u.computed.Add(1)
	return usageOf(p, "d")
}

func TestLazyUsage(t *testing.T) {
	s := Build(everything, manyPools("a", 3*chunkSize))
	other := Build(everything, manyPools("b", 6*chunkSize))
	var computed atomic.Int64
	usage := NewLazyState(s, countedUsage{&computed})
	if computed.Load() != 0 {
		t.Error("usage was computed before it was asked for")
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, list := range [][]*pool.Pool{s.Pools(), other.Pools(), s.Pools()} {
				for _, p := range list {
					if u := usage.Pool(p); u.Pool() != p || !u.InUse(0) {
						t.Errorf("pool %s: not its usage", p.ID)
					}
				}
			}
		})
	}
	group.Wait()
	before := computed.Load()
	for _, p := range s.Pools() {
		usage.Pool(p)
	}
	if computed.Load() != before {
		t.Error("what is known was computed again")
	}
}

// States that come anew for each pod mostly say the same.
func TestEqualUsageIsShared(t *testing.T) {
	p := Build(everything, given.PartitionedPool()).Pools()[0]
	names := []string{}
	for i := range p.Devices {
		names = append(names, p.Devices[i].Object.Name)
	}
	first := usageOf(p, names[0])
	if usageOf(p, names[0]) != first {
		t.Error("equal usage was computed again")
	}
	for _, used := range [][]string{nil, {names[1]}, names[:2], names} {
		if usageOf(p, used...) == first {
			t.Errorf("%v in use is taken for %s in use", used, names[0])
		}
	}
	if again := usageOf(p, names[0]); again.InUse(1) || !again.InUse(0) {
		t.Error("usage is that of another state")
	}
}

// A usage with shares is not that of the same devices without them.
func TestUsageWithSharesIsNotKept(t *testing.T) {
	p := Build(everything, given.PartitionedPool()).Pools()[0]
	for _, shared := range []bool{true, false} {
		usage := pool.NewUsage(p, pool.Sum{}, func(i pool.DeviceIndex) pool.Use { return pool.Use{Exclusive: i == 1, Shared: shared && i == 0} })
		if !usage.InUse(1) || usage.Shared(0) != shared {
			t.Errorf("in use as a whole: %v, in shares: %v, want %v", usage.InUse(1), usage.Shared(0), shared)
		}
	}
}

// A sum stands for a usage. Without one, or with another one, each device is looked at.
func TestUsageIsKnownByItsSum(t *testing.T) {
	p := Build(everything, given.PartitionedPool()).Pools()[0]
	usage := func(sum uint64, inUse bool) (*pool.Usage, bool) {
		looked := false
		return pool.NewUsage(p, pool.Sum{sum}, func(first pool.DeviceIndex) pool.Use {
			looked = true
			return pool.Use{Exclusive: inUse && first == 0}
		}), looked
	}
	for i, asked := range []struct {
		sum           uint64
		inUse, looked bool
	}{{0, true, true}, {0, true, true}, {1, true, true}, {1, true, false}, {2, true, true}, {2, true, false}, {1, true, true}, {3, false, true}, {3, false, false}, {0, false, true}, {1, true, true}} {
		u, looked := usage(asked.sum, asked.inUse)
		if looked != asked.looked || u.InUse(0) != asked.inUse {
			t.Errorf("question %d, %+v: looked %v, in use %v", i, asked, looked, u.InUse(0))
		}
	}
}
