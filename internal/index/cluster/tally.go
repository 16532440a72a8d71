// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/internal/index/persist"
	"github.com/dray-project/dray/internal/index/pool"
)

// Places are the places of a list of nodes in one Snapshot. They are immutable but for
// the tallies, and safe for concurrent use.
type Places struct {
	snapshot *Snapshot
	nodes    []*corev1.Node
	places   []*Place
	// positions are those of the nodes that reach a pool, by Pool.Slot.
	positions func() [][]int32
	tallies   *lru.Cache // by whom they are for
}

// Places returns the Place of each node. Those of the last list are remembered, and so
// are the nodes: asking for the same nodes again costs a comparison of pointers.
func (s *Snapshot) Places(nodes []*corev1.Node) *Places {
	if known := s.places.Load(); known != nil && slices.Equal(known.nodes, nodes) {
		return known
	}
	made := &Places{snapshot: s, nodes: slices.Clone(nodes), places: make([]*Place, len(nodes)), tallies: lru.New(maxTallies)}
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
	positions := make([][]int32, p.snapshot.bySlot.Len())
	for i, place := range p.places {
		if place == nil {
			continue
		}
		for _, v := range place.Pools {
			positions[v.Pool.Slot] = append(positions[v.Pool.Slot], int32(i))
		}
	}
	return positions
}

// Tally has the numbers that somebody gave to each of some Places in one state of use. Reading all of
// them is reading one list. A nil Tally has no numbers and takes none.
type Tally struct {
	places *Places
	of     any
	usage  persist.Array[*pool.Usage]
	// numbers are 0 where none was given. They are not written to once the tally was kept.
	numbers []uint32
	// complete is set if it was kept and no number is 0.
	complete bool
}

// maxTallies bounds the tallies of a list of nodes.
const maxTallies = 8

// Tally returns the numbers that were given on somebody's behalf, as far as the state of
// use of the places is what it was. It costs what changed since then. It is
// nil if the state is of another snapshot, or lazy.
func (p *Places) Tally(of any, u *State) *Tally {
	if u.lazy != nil || u.snapshot != p.snapshot {
		return nil
	}
	if kept, ok := p.tallies.Get(of); ok {
		return kept.(*Tally).next(u)
	}
	return &Tally{places: p, of: of, usage: u.pools, numbers: make([]uint32, len(p.places))}
}

// next is the tally for another state of use.
func (t *Tally) next(u *State) *Tally {
	var changed []int
	persist.Differences(t.usage, u.pools, func(slot int, _, _ *pool.Usage) { changed = append(changed, slot) })
	if len(changed) == 0 && t.complete {
		return t
	}
	next := &Tally{places: t.places, of: t.of, usage: u.pools, numbers: slices.Clone(t.numbers)}
	positions := t.places.positions()
	for _, slot := range changed {
		for _, i := range positions[slot] {
			next.numbers[i] = 0
		}
	}
	return next
}

// Number returns the number of the i-th place, 0 if there is none.
func (t *Tally) Number(i int) uint32 {
	if t == nil {
		return 0
	}
	return t.numbers[i]
}

// Set gives the i-th place a number, unless more than the name of the node decides what it reaches. It may be
// called for different places at once, and not once the tally was kept.
func (t *Tally) Set(i int, number uint32) {
	if t != nil && t.places.places[i] != nil {
		t.numbers[i] = number
	}
}

// Keep remembers the tally.
func (t *Tally) Keep() {
	if t != nil && !t.complete {
		t.complete = !slices.Contains(t.numbers, 0)
		t.places.tallies.Add(t.of, t)
	}
}
