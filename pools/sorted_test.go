package pools

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// However pools come and go, the list is the sorted list of those that are there, and
// earlier lists stay as they were.
func TestSortedPools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		there := make(map[PoolID]*Pool)
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
func drawChanges(t *rapid.T, there map[PoolID]*Pool) []change {
	first, count := rapid.IntRange(0, 600).Draw(t, "first"), rapid.IntRange(1, 300).Draw(t, "count")
	step, gone := rapid.IntRange(1, 9).Draw(t, "step"), rapid.Bool().Draw(t, "gone")
	var changes []change
	for i := range count {
		id := PoolID{Driver: testDriver, Name: fmt.Sprintf("%05d", first+i*step)}
		if gone {
			delete(there, id)
			changes = append(changes, change{id: id})
		} else {
			there[id] = &Pool{ID: id}
			changes = append(changes, change{id: id, pool: there[id]})
		}
	}
	return changes
}

func checkSorted(t *rapid.T, list sortedPools, there map[PoolID]*Pool) {
	want := slices.SortedFunc(maps.Values(there), func(a, b *Pool) int { return comparePools(a.ID, b.ID) })
	if got := slices.Concat(list.pieces...); !slices.Equal(got, want) {
		t.Fatalf("%d pools, want %d, or not in order", len(got), len(want))
	}
	for i := range 6000 {
		id := PoolID{Driver: testDriver, Name: fmt.Sprintf("%05d", i)}
		if list.find(id) != there[id] {
			t.Fatalf("pool %s is not what was set", id)
		}
	}
	if longest := slices.ContainsFunc(list.pieces, func(p []*Pool) bool { return len(p) == 0 || len(p) > maxPiece }); longest {
		t.Fatal("a piece is empty or too long")
	}
}
