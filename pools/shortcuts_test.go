package pools

import (
	"fmt"
	"testing"
)

// However often nodes are asked about, each is answered for by its own pools.
func TestShortcuts(t *testing.T) {
	const nodes = 200
	b := NewBuilder(allGates)
	for i := range nodes {
		b.Set(newSlice(fmt.Sprint("s", i), fmt.Sprint("p", i), onNode(fmt.Sprint("n", i)), devices("a")))
	}
	for range 2 {
		s := b.Snapshot()
		for round := range 3 {
			for i := range 2 * nodes { // the second half has none
				node := newNode(fmt.Sprint("n", i))
				place := s.Place(node)
				if i >= nodes {
					if len(place.Views()) > 0 {
						t.Fatalf("round %d: %s reaches %v", round, node.Name, place.Views()[0].Pool.ID)
					}
					continue
				}
				if views := place.Views(); len(views) != 1 || views[0].Pool != s.Pool(PoolID{testDriver, fmt.Sprint("p", i)}) {
					t.Fatalf("round %d: %s reaches %d pools, not its own", round, node.Name, len(views))
				}
				if place != s.Place(node) {
					t.Fatalf("round %d: %s has two places", round, node.Name)
				}
			}
		}
		if s.shortcuts.slots.Load() == nil {
			t.Error("there are no shortcuts")
		}
		b.Set(newSlice("s7", "p7", onNode("n7"), devices("b")))
	}
}
