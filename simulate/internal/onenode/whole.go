// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"iter"
	"math"
	"slices"

	"github.com/dray-project/dray/internal/index/pool"
)

// DeviceUse describes a device, given which others are in use.
type DeviceUse struct {
	// Whole is set if the device is not a partition of another one. No device of its pool consumes at least as
	// much of all counters, and more of some.
	Whole bool
	// Free is set if the device could be allocated exclusively, given what is in use.
	Free bool
}

// DeviceUses lists the devices by position.
func (inv *Inventory) DeviceUses(u Uses) iter.Seq2[int32, DeviceUse] {
	return func(yield func(int32, DeviceUse) bool) {
		for i, index := range inv.index() {
			p := &inv.Pools[i]
			usage, parts := p.usage(index, u), p.whichAreParts(index)
			for at := range p.Devices {
				use := DeviceUse{Whole: !parts[at], Free: usage.Obtainable(pool.DeviceIndex(at))}
				if !yield(p.First+int32(at), use) {
					return
				}
			}
		}
	}
}

// MostDevices is an upper bound on the number of devices that requests can get exclusively from nodes and pools
// of several nodes. It is math.MaxInt if some device allows multiple allocations.
func MostDevices(nodes []NodeUse, around *Surroundings) int {
	most := 0
	for _, n := range nodes {
		for i, index := range n.Inventory.index() {
			if slices.ContainsFunc(index.Devices, isShared) {
				return math.MaxInt
			}
			usage := n.Inventory.Pools[i].usage(index, n.Uses)
			for at := range index.Devices {
				if usage.Obtainable(pool.DeviceIndex(at)) {
					most++
				}
			}
		}
	}
	for _, p := range around.Shared.Pools {
		if slices.ContainsFunc(p.pool.Devices, isShared) {
			return math.MaxInt
		}
		most += len(p.pool.Devices)
	}
	return most
}

func isShared(d pool.Device) bool { return d.Multiple }

// usage converts the use of a pool for package pool.
func (p *OwnPool) usage(index *pool.Pool, u Uses) *pool.Usage {
	usage := index.Idle()
	first, last := u.Of(p)
	if first == last {
		return usage
	}
	edit := usage.Edit()
	for i := range u[first:last] {
		one := &u[first+i]
		edit.Set([]pool.DeviceIndex{pool.DeviceIndex(one.Device - p.First)}, one.ofPool())
	}
	return edit.Done()
}

// whichAreParts says for each device of a pool whether it is a partition of another one. The result is cached.
func (f *PoolFacts) whichAreParts(index *pool.Pool) []bool {
	if known := f.parts.Load(); known != nil {
		return *known
	}
	found := partsOf(index)
	f.parts.Store(&found)
	return found
}

func partsOf(p *pool.Pool) []bool {
	list := make([]bool, len(p.Devices))
	takers := make([][]int, len(p.Counters)) // devices that consume each counter
	for i := range p.Devices {
		for _, use := range p.Devices[i].Uses {
			takers[use.Counter] = append(takers[use.Counter], i)
		}
	}
	for i := range p.Devices {
		if uses := p.Devices[i].Uses; len(uses) > 0 {
			for _, other := range takers[uses[0].Counter] {
				list[i] = list[i] || includes(p.Devices[other].Uses, uses)
			}
		}
	}
	return list
}

// includes reports whether one device consumes at least as much of each counter as another, and more of some.
func includes(larger, smaller []pool.CounterUse) bool {
	more := len(larger) > len(smaller)
	for _, use := range smaller {
		for len(larger) > 0 && larger[0].Counter < use.Counter {
			larger = larger[1:]
		}
		if len(larger) == 0 || larger[0].Counter != use.Counter {
			return false
		}
		compared := larger[0].Amount.Cmp(use.Amount)
		if compared < 0 {
			return false
		}
		more = more || compared > 0
	}
	return more
}
