package cluster

import (
	"github.com/dray-project/dray/internal/index/persist"
	"github.com/dray-project/dray/internal/index/pool"
)

// Tally has the numbers that somebody gave to each of some Places in one state of use, as
// Place.SetNumber does to one. Reading all of them is reading one list.
type Tally struct {
	places *Places
	of     any
	usage  persist.Array[*pool.Usage]
	// numbers are 0 where none was given. They are not written to once kept.
	numbers []uint32
	missing int
	kept    bool
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
	return &Tally{places: p, of: of, usage: u.pools, numbers: make([]uint32, len(p.places)), missing: len(p.places)}, true
}

// next is the tally for another state of use.
func (t *Tally) next(u *State) *Tally {
	var changed []int
	persist.Differences(t.usage, u.pools, func(slot int, _, _ *pool.Usage) { changed = append(changed, slot) })
	if len(changed) == 0 && t.missing == 0 {
		return t
	}
	next := &Tally{places: t.places, of: t.of, usage: u.pools, numbers: append([]uint32(nil), t.numbers...), missing: t.missing}
	positions := t.places.positions()
	for _, slot := range changed {
		for _, i := range positions[slot] {
			if next.numbers[i] != 0 {
				next.numbers[i], next.missing = 0, next.missing+1
			}
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
	if t.kept {
		return
	}
	t.kept, t.missing = true, 0
	for _, number := range t.numbers {
		if number == 0 {
			t.missing++
		}
	}
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
