package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// Places are the places of a list of nodes in one Snapshot. They are immutable but for
// what is noted about them, and safe for concurrent use.
type Places struct {
	snapshot *Snapshot
	nodes    []*corev1.Node
	places   []*Place
	// positions are those of the nodes that reach a pool, by Pool.Slot.
	positions func() [][]int32
	tallies   atomic.Pointer[tallies]
}

// Places returns the Place of each node. Those of the last list are remembered, and so
// are the nodes: asking for the same nodes again costs a comparison of pointers.
func (s *Snapshot) Places(nodes []*corev1.Node) *Places {
	if known := s.places.Load(); known != nil && slices.Equal(known.nodes, nodes) {
		return known
	}
	made := &Places{snapshot: s, nodes: slices.Clone(nodes), places: make([]*Place, len(nodes))}
	for i, node := range nodes {
		made.places[i] = s.Place(node)
	}
	made.positions = sync.OnceValue(made.bySlot)
	s.places.Store(made)
	return made
}

// At returns the Place of the i-th node, nil if more than its name decides what it reaches.
func (p *Places) At(i int) *Place { return p.places[i] }

func (p *Places) bySlot() [][]int32 {
	counts := make([]int, p.snapshot.bySlot.Len())
	total := 0
	p.each(func(_ int32, slot int) { counts[slot]++; total++ })
	all, positions := make([]int32, total), make([][]int32, len(counts))
	for slot, n := range counts {
		positions[slot], all = all[:0:n], all[n:]
	}
	p.each(func(i int32, slot int) { positions[slot] = append(positions[slot], i) })
	return positions
}

// each visits the pools that the nodes reach.
func (p *Places) each(visit func(position int32, slot int)) {
	for i, place := range p.places {
		if place == nil {
			continue
		}
		for _, v := range place.views {
			visit(int32(i), v.Pool.Slot)
		}
	}
}
