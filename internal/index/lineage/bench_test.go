// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// BenchmarkIndex is what a caller pays who has a list of slices for each pod.
func BenchmarkIndex(b *testing.B) {
	list := fleet()
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
			index := NewIndex(everything)
			index.Snapshot(list)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				index.Snapshot(bench.lists[i%len(bench.lists)])
			}
		})
	}
}

func fleet() (list []*resourceapi.ResourceSlice) {
	for n := range 5000 {
		list = append(list, fleetSlice(n))
	}
	return list
}
