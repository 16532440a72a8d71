// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"testing"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/index/pool"
)

// The usage of a pool is found on a node for each set of devices that the node reaches.
func TestFindInPool(t *testing.T) {
	const devices = 7
	for reached := range 1 << devices {
		// A pool of one device before it, and one after it.
		d := &Devices{List: []Device{{Index: 3}}, offsets: []int32{0, 1}}
		for i := range devices {
			if reached>>i&1 == 1 {
				d.List = append(d.List, Device{Pool: 1, Index: pool.DeviceIndex(i)})
			}
		}
		d.offsets = append(d.offsets, int32(len(d.List)))
		d.List = append(d.List, Device{Pool: 2, Index: 3})
		for used := range uint64(1 << devices) {
			inUse := bitset.From([]uint64{used})
			got, want := bitset.New(devices+2), bitset.New(devices+2)
			d.find(1, func(i pool.DeviceIndex) (pool.DeviceIndex, bool) {
				next, ok := inUse.NextSet(uint(i))
				return pool.DeviceIndex(next), ok
			}, got)
			for i := range d.List {
				want.SetTo(uint(i), d.List[i].Pool == 1 && inUse.Test(uint(d.List[i].Index)))
			}
			if !got.Equal(want) {
				t.Fatalf("reached %07b, used %07b: found %s, want %s", reached, used, got, want)
			}
		}
	}
}
