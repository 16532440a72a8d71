package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/index/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// However pools come and go, the list is the sorted list of those that are there, and
// earlier lists stay as they were.
func TestSortedPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		there := make(map[pool.ID]*pool.Pool)
		var list sortedPools
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before, pieces := list, slices.Concat(list.pieces...)
			list = list.with(drawChanges(t, there))
			checkSorted(t, list, there)
			if !slices.Equal(slices.Concat(before.pieces...), pieces) {
				t.Fatal("a change of the next list shows in the last one")
			}
		}
	})
}

// drawChanges changes what is there.
func drawChanges(t *rapid.T, there map[pool.ID]*pool.Pool) []change {
	first, count := rapid.IntRange(0, 600).Draw(t, "first"), rapid.IntRange(1, 300).Draw(t, "count")
	step, gone := rapid.IntRange(1, 9).Draw(t, "step"), rapid.Bool().Draw(t, "gone")
	var changes []change
	for i := range count {
		id := pool.ID{Driver: given.Driver, Name: fmt.Sprintf("%05d", first+i*step)}
		if gone {
			delete(there, id)
			changes = append(changes, change{id: id})
		} else {
			there[id] = &pool.Pool{ID: id}
			changes = append(changes, change{id: id, pool: there[id]})
		}
	}
	return changes
}

func checkSorted(t *rapid.T, list sortedPools, there map[pool.ID]*pool.Pool) {
	want := slices.SortedFunc(maps.Values(there), func(a, b *pool.Pool) int { return a.ID.Compare(b.ID) })
	if got := slices.Concat(list.pieces...); !slices.Equal(got, want) {
		t.Fatalf("%d pools, want %d, or not in order", len(got), len(want))
	}
	for i := range 6000 {
		id := pool.ID{Driver: given.Driver, Name: fmt.Sprintf("%05d", i)}
		if list.find(id) != there[id] {
			t.Fatalf("pool %s is not what was set", id)
		}
	}
	if longest := slices.ContainsFunc(list.pieces, func(p []*pool.Pool) bool { return len(p) == 0 || len(p) > maxPiece }); longest {
		t.Fatal("a piece is empty or too long")
	}
}
