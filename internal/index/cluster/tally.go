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

// Places are the places of a list of nodes in one Snapshot. They are immutable except for their tallies, and
// safe for concurrent use.
type Places struct {
	snapshot *Snapshot
	nodes    []*corev1.Node
	places   []*Place
	// positions are, by Pool.Slot, the positions of the nodes that reach a pool.
	positions func() [][]int32
	tallies   *lru.Cache // by owner
}

// Places returns the Place of each node. The last list is cached: asking for the same nodes again costs a
// comparison of pointers.
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

// Tally has the numbers that an owner gave to Places with a certain usage, in one list. A nil Tally has no
// numbers and ignores Set.
type Tally struct {
	places *Places
	owner  any
	usage  persist.Array[*pool.Usage]
	// numbers are 0 where none was given. They are immutable once the tally was kept.
	numbers []uint32
	// complete is set if the tally was kept and no number is 0.
	complete bool
}

// maxTallies bounds the tallies of a list of nodes.
const maxTallies = 8

// Tally returns the numbers of an owner that are still valid with the usage in a state. It costs what changed
// since the last Keep. It is nil if the state is lazy or has another snapshot.
func (p *Places) Tally(owner any, u *State) *Tally {
	if u.lazy != nil || u.snapshot != p.snapshot {
		return nil
	}
	if kept, ok := p.tallies.Get(owner); ok {
		return kept.(*Tally).next(u)
	}
	return &Tally{places: p, owner: owner, usage: u.pools, numbers: make([]uint32, len(p.places))}
}

// next returns the tally for another usage.
func (t *Tally) next(u *State) *Tally {
	var changed []int
	persist.Differences(t.usage, u.pools, func(slot int, _, _ *pool.Usage) { changed = append(changed, slot) })
	if len(changed) == 0 && t.complete {
		return t
	}
	next := &Tally{places: t.places, owner: t.owner, usage: u.pools, numbers: slices.Clone(t.numbers)}
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

// Set gives the i-th place a number. It does nothing for a node without a Place. It may be called for different
// places at once, and not after Keep.
func (t *Tally) Set(i int, number uint32) {
	if t != nil && t.places.places[i] != nil {
		t.numbers[i] = number
	}
}

// Keep stores the tally for the next call of Places.Tally.
func (t *Tally) Keep() {
	if t != nil && !t.complete {
		t.complete = !slices.Contains(t.numbers, 0)
		t.places.tallies.Add(t.owner, t)
	}
}
