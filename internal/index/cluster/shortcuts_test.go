package cluster

import (
	"fmt"
	"testing"

	"github.com/dray-project/dray/internal/index/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// However often nodes are asked about, each is answered for by its own pools.
func TestShortcuts(t *testing.T) {
	const nodes = 200
	b := NewBuilder(everything)
	for i := range nodes {
		b.Set(given.Slice(fmt.Sprint("s", i), fmt.Sprint("p", i), given.OnNode(fmt.Sprint("n", i)), given.Devices("a")))
	}
	for range 2 {
		s := b.Snapshot()
		for round := range 3 {
			for i := range 2 * nodes { // the second half has none
				node := given.Node(fmt.Sprint("n", i))
				place := s.Place(node)
				if i >= nodes {
					if len(place.Views()) > 0 {
						t.Fatalf("round %d: %s reaches %v", round, node.Name, place.Views()[0].Pool.ID)
					}
					continue
				}
				if views := place.Views(); len(views) != 1 || views[0].Pool != s.Pool(pool.ID{Driver: given.Driver, Name: fmt.Sprint("p", i)}) {
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
		b.Set(given.Slice("s7", "p7", given.OnNode("n7"), given.Devices("b")))
	}
}
