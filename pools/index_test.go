package pools

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
)

// Whatever lists come one after the other, the index answers as Build does.
func TestIndexIsBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index := NewIndex(allGates)
		var known []*resourceapi.ResourceSlice
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			for range rapid.IntRange(0, 3).Draw(t, "new") {
				slice := drawSlice(t)
				slice.Name += string(rune('a' + len(known))) // ties are in order of arrival
				known = append(known, slice)
			}
			list := rapid.Permutation(known).Draw(t, "order")
			list = list[:rapid.IntRange(0, len(list)).Draw(t, "length")]
			if len(list) > 0 && rapid.IntRange(0, 5).Draw(t, "twice") == 0 {
				list = append(list, list[0])
			}
			if diff := cmp.Diff(render(t, Build(allGates, list)), render(t, index.Snapshot(list))); diff != "" {
				t.Fatalf("differs from Build (-build +index):\n%s", diff)
			}
		}
	})
}

func TestIndexSharesWhatDidNotChange(t *testing.T) {
	list := objects{
		newSlice("a", "p", everywhere, devices("d")),
		newSlice("b", "q", everywhere, devices("d")),
	}
	index := NewIndex(allGates)
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
