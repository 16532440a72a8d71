package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/index/persist"
	"github.com/dray-project/dray/internal/index/pool"
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

// Tally has the numbers that somebody gave to each of some Places in one state of use, as
// Place.SetNumber does to one. Reading all of them is reading one list.
type Tally struct {
	places *Places
	of     any
	usage  persist.Array[*pool.Usage]
	// numbers are 0 where none was given. They are not written to once the tally was kept.
	numbers []uint32
	// complete is set if it was kept and no number is 0.
	complete bool
}

// tallies is an immutable list of those that were kept, newest first.
type tallies []*Tally

// maxTallies bounds the tallies of a list of nodes.
const maxTallies = 8

// Tally returns the numbers that were given on somebody's behalf, as far as the state of
// use of the places is what it was. It costs what changed since then. It is
// false if the state is of another snapshot, or lazy.
func (p *Places) Tally(of any, u *State) (*Tally, bool) {
	if u.lazy != nil || u.snapshot != p.snapshot {
		return nil, false
	}
	if list := p.tallies.Load(); list != nil {
		for _, t := range *list {
			if t.of == of {
				return t.next(u), true
			}
		}
	}
	return &Tally{places: p, of: of, usage: u.pools, numbers: make([]uint32, len(p.places))}, true
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
func (t *Tally) Number(i int) uint32 { return t.numbers[i] }

// Set gives the i-th place a number. It may be called for different places at once, and
// not once the tally was kept.
func (t *Tally) Set(i int, number uint32) { t.numbers[i] = number }

// Keep remembers the tally. It may be lost to a concurrent call.
func (t *Tally) Keep() {
	if t.complete {
		return
	}
	t.complete = !slices.Contains(t.numbers, 0)
	before := t.places.tallies.Load()
	list := tallies{t}
	if before != nil {
		for _, other := range *before {
			if other.of != t.of && len(list) < maxTallies {
				list = append(list, other)
			}
		}
	}
	t.places.tallies.CompareAndSwap(before, &list)
}

// stateNote is a number that somebody gave to a place in one state of use. It is an
// immutable list.
type stateNote struct {
	of     any
	number uint32
	// usages are what was in use of each pool of the place. That of most places is in one.
	usages []slotUsage
	one    [1]slotUsage
	next   *stateNote
	length int
}

// slotUsage says that a pool was in that state, by Pool.Slot.
type slotUsage struct {
	slot  int
	usage *pool.Usage
}

// maxStateNotes bounds the notes of a place.
const maxStateNotes = 16

// Number returns the number that was given on somebody's behalf to the place in the state
// of use in which it is. It is false if none was, or if the state has changed since. A nil
// State stands for nothing in use, which is always the same.
func (p *Place) Number(of any, u *State) (uint32, bool) {
	for n := p.notes.Load(); n != nil; n = n.next {
		if n.of == of {
			return n.number, u == nil || n.holds(u)
		}
	}
	return 0, false
}

func (n *stateNote) holds(u *State) bool {
	for i := range n.usages {
		if !u.has(&n.usages[i]) {
			return false
		}
	}
	return true
}

// has does not look at the pool if it need not.
func (u *State) has(known *slotUsage) bool {
	if u.lazy != nil {
		return u.Pool(known.usage.Pool()) == known.usage
	}
	return u.pools.Get(known.slot) == known.usage
}

// SetNumber gives the place in this state of use a number, instead of the last one on
// the same behalf. It may be lost to a concurrent call.
func (p *Place) SetNumber(of any, u *State, number uint32) {
	note := &stateNote{of: of, number: number}
	note.usages = note.one[:0]
	for _, v := range p.views {
		note.usages = append(note.usages, slotUsage{v.Pool.Slot, u.Pool(v.Pool)})
	}
	head := p.notes.Load()
	note.next = head.without(of)
	if note.length = 1; note.next != nil {
		note.length += note.next.length
	}
	if note.length > maxStateNotes {
		note.next, note.length = nil, 1
	}
	p.notes.CompareAndSwap(head, note)
}

// without returns the list without the note of somebody.
func (n *stateNote) without(of any) *stateNote {
	if n == nil {
		return nil
	}
	if n.of == of {
		return n.next
	}
	rest := n.next.without(of)
	if rest == n.next {
		return n
	}
	kept := *n
	kept.next, kept.length = rest, n.length-1
	return &kept
}
