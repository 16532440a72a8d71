// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/cluster"
)

// Whatever lists come one after the other, the index answers as Build does.
func TestIndexIsBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index := NewIndex(everything)
		var known []*resourceapi.ResourceSlice
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			for range rapid.IntRange(0, 3).Draw(t, "new") {
				slice := given.DrawSlice(t)
				slice.Name += string(rune('a' + len(known))) // ties are in order of arrival
				known = append(known, slice)
			}
			list := rapid.Permutation(known).Draw(t, "order")
			list = list[:rapid.IntRange(0, len(list)).Draw(t, "length")]
			if len(list) > 0 && rapid.IntRange(0, 5).Draw(t, "twice") == 0 {
				list = append(list, list[0])
			}
			if diff := cmp.Diff(render(cluster.Build(everything, list)), render(index.Snapshot(list))); diff != "" {
				t.Fatalf("differs from Build (-build +index):\n%s", diff)
			}
		}
	})
}

func TestIndexSharesWhatDidNotChange(t *testing.T) {
	list := objects{
		given.Slice("a", "p", given.Everywhere, given.Devices("d")),
		given.Slice("b", "q", given.Everywhere, given.Devices("d")),
	}
	index := NewIndex(everything)
	first := index.Snapshot(list)
	if index.Snapshot(list) != first {
		t.Error("the same list gives another snapshot")
	}
	turned := slices.Clone(list)
	slices.Reverse(turned)
	if index.Snapshot(turned) != first {
		t.Error("the list in another order gives another snapshot")
	}
	changed := index.Snapshot(objects{list[0], list[1].DeepCopy()})
	if changed.Pools()[0] != first.Pools()[0] || changed.Pools()[1] == first.Pools()[1] {
		t.Error("not exactly the changed pool is new")
	}
}

// So it does for lists that change in one place, at any speed.
func TestIndexIsBuildStepByStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index := NewIndex(everything)
		pool := manyPools("a", 60)
		list := slices.Clone(pool[:rapid.IntRange(20, 40).Draw(t, "length")])
		fresh := pool[40:]
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			at := rapid.IntRange(0, len(list)-1).Draw(t, "at")
			next := slices.Delete(slices.Clone(list), at, min(at+rapid.IntRange(0, 2).Draw(t, "fewer"), len(list)))
			for range rapid.IntRange(0, 2).Draw(t, "more") {
				next = slices.Insert(next, min(at, len(next)), rapid.SampledFrom(fresh).Draw(t, "slice")) // perhaps once more
			}
			if len(next) == 0 {
				continue
			}
			got := index.Snapshot(next)
			if diff := cmp.Diff(render(cluster.Build(everything, next)), render(got)); diff != "" {
				t.Fatalf("differs from Build (-build +index):\n%s", diff)
			}
			if !hasRepeats(next) && index.Snapshot(next) != got {
				t.Fatal("the same list gives another snapshot")
			}
			list = next
		}
	})
}

func hasRepeats(list objects) bool {
	seen := make(map[*resourceapi.ResourceSlice]bool)
	for _, slice := range list {
		if seen[slice] {
			return true
		}
		seen[slice] = true
	}
	return false
}

// Lists with a slice in them twice leave no traces.
func TestIndexRefusesRepeats(t *testing.T) {
	list := manyPools("a", 5)
	index := NewIndex(everything)
	first := index.Snapshot(list)
	for _, twice := range []objects{
		append(slices.Clone(list), list[0]),
		{list[0], list[1], list[2], list[3], list[3]},
		append(slices.Clone(list), given.Slice("n", "n"), list[4]),
		{list[0], list[1], nil, list[1], list[3], list[4]},
	} {
		if diff := cmp.Diff(render(cluster.Build(everything, twice)), render(index.Snapshot(twice))); diff != "" {
			t.Errorf("differs from Build (-build +index):\n%s", diff)
		}
		if index.Snapshot(list) != first {
			t.Error("the list without repeats gives another snapshot")
		}
	}
}

func TestSimilarityIsExactForSmallSets(t *testing.T) {
	list := manyPools("a", 30)
	for common := range len(list) {
		a, b := list[:15+common/2], list[common/2:]
		both, all := len(a)+len(b)-len(list), len(list)
		v := version{fingerprintOf(a), cluster.Build(everything, a)}
		if got, want := v.similarity(b, len(b)), float64(both)/float64(all); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d of %d in common: got %f", both, all, got)
		}
	}
	// A copy of a slice is another one.
	copied := make(objects, len(list))
	for i := range list {
		copied[i] = list[i].DeepCopy()
	}
	v := version{fingerprintOf(list), cluster.Build(everything, list)}
	if got := v.similarity(copied, len(copied)); got != 0 {
		t.Errorf("copies: got %f", got)
	}
	if got := v.similarity(nil, 0); got != 0 {
		t.Errorf("no slices: got %f", got)
	}
}

func TestFingerprintHasNoOrder(t *testing.T) {
	list := manyPools("a", 100)
	want := fingerprintOf(list)
	turned := append(objects{nil}, list...)
	slices.Reverse(turned)
	if fingerprintOf(turned) != want {
		t.Error("another order has another fingerprint")
	}
	for i := range list {
		other := slices.Clone(list)
		other[i] = list[i].DeepCopy()
		if fingerprintOf(other) == want || fingerprintOf(slices.Delete(other, i, i+1)) == want {
			t.Errorf("a change of slice %d does not show", i)
		}
	}
}
