// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// flow decides whether openings can be given devices such that no unit serves more than it can, by augmenting
// paths. A unit is a device, or the devices of which one can serve. What a flow leaves out makes it more
// generous only, so that there is none proves that there is no solution (Hall's theorem, where
// nothing is shared).
type flow struct {
	open []opening
	// held are the devices that openings have, by request. They are kept for the next time.
	held []*bitset.BitSet
	// unit is that of each device, called by one of its devices. Nil if each is one by itself.
	unit []int32
	// room is how many more openings a unit can serve, full has devices that serve and of which the unit has none.
	room []int32
	full *bitset.BitSet
	// seen are the units and openings that the current augmentation visited.
	seen, seenOpen *bitset.BitSet
}

func (s *search) newFlow() flow {
	n, requests := len(s.p.Devices), len(s.p.Requests)
	return flow{
		held: s.memory.setLists.Take(requests), room: s.memory.counts.Take(n), full: s.memory.sets.New(n),
		seen: s.memory.sets.New(n), seenOpen: s.memory.sets.New(requests),
	}
}

// fails reports whether some slot can have no device.
func (f *flow) fails(s *search, open []opening, unit []int32) bool {
	if len(open) < 2 && unit == nil {
		return false // it has as many as it needs
	}
	f.begin(s, open, unit)
	for k := range open {
		for have := int(f.holds(k).Count()); have < open[k].slots; have++ {
			if f.find(k) {
				continue
			}
			s.stats.Steps++
			f.seen.ClearAll()
			f.seenOpen.ClearAll()
			if !f.augment(k) {
				return true
			}
		}
	}
	return false
}

// begin leaves openings what they had the last time, as far as they still can have it.
func (f *flow) begin(s *search, open []opening, unit []int32) {
	f.open, f.unit = open, unit
	f.full.ClearAll()
	for i := range f.room {
		f.room[i] = 1
	}
	if unit == nil { // else one choice takes all that a device has of the values
		for _, i := range s.ahead.shareable {
			f.room[i] = s.sharesLeft(open, i)
		}
	}
	for k := range open {
		if f.held[open[k].request] == nil {
			f.held[open[k].request] = s.memory.sets.New(len(s.p.Devices))
		}
		held, have := f.holds(k), 0
		for i, ok := held.NextSet(0); ok; i, ok = held.NextSet(i + 1) {
			if have == open[k].slots || !open[k].has(i) || f.room[f.unitOf(i)] == 0 {
				held.Clear(i)
				continue
			}
			f.count(i, 1)
			have++
		}
	}
}

// holds are the devices of an opening.
func (f *flow) holds(k int) *bitset.BitSet { return f.held[f.open[k].request] }

func (f *flow) unitOf(i uint) uint {
	if f.unit == nil {
		return i
	}
	return uint(f.unit[i])
}

// find gives an opening a device of a unit that has room.
func (f *flow) find(k int) bool {
	o, held := &f.open[k], f.holds(k)
	for i, ok := o.next(0, held, f.full); ok; i, ok = o.next(i+1, held, f.full) {
		if f.room[f.unitOf(i)] > 0 {
			f.give(k, i)
			return true
		}
	}
	return false
}

// augment gives an opening one more device, moving others if it must.
func (f *flow) augment(k int) bool {
	f.seenOpen.Set(uint(k))
	if f.find(k) {
		return true
	}
	o, held := &f.open[k], f.holds(k)
	for i, ok := o.next(0, held, f.seen); ok; i, ok = o.next(i+1, held, f.seen) {
		unit := f.unitOf(i)
		if f.seen.Test(unit) {
			continue
		}
		f.seen.Set(unit)
		if f.move(unit) {
			f.give(k, i)
			return true
		}
	}
	return false
}

// move makes room in a unit: it finds an opening another device for one of it.
func (f *flow) move(unit uint) bool {
	for k := range f.open {
		held := f.holds(k)
		for i, ok := held.NextSet(0); ok && !f.seenOpen.Test(uint(k)); i, ok = held.NextSet(i + 1) {
			if f.unitOf(i) == unit && f.augment(k) {
				held.Clear(i)
				f.count(i, -1)
				return true
			}
		}
	}
	return false
}

func (f *flow) give(k int, i uint) {
	f.holds(k).Set(i)
	f.count(i, 1)
}

func (f *flow) count(i uint, by int32) {
	room := &f.room[f.unitOf(i)]
	*room -= by
	f.full.SetTo(i, *room == 0)
}

// sharesLeft is how many openings can have a share of a device at most: those that take least,
// resource by resource.
func (s *search) sharesLeft(open []opening, i int32) int32 {
	fits := 0
	for k := range open {
		if open[k].has(uint(i)) {
			fits++
		}
	}
	if fits < 2 {
		return 1
	}
	of := slices.IndexFunc(s.p.Domains, func(d Domain) bool { return d.share(i) != nil })
	if of < 0 {
		return int32(fits)
	}
	var demands []amount.Amount
	for part, draw := range s.p.Domains[of].share(i) {
		demands = demands[:0]
		for k := range open {
			if open[k].has(uint(i)) {
				demands = append(demands, s.leastShare(&open[k], i, part))
			}
		}
		slices.SortFunc(demands, amount.Amount.Cmp)
		left, n := s.left[draw.Resource], 0
		for n < fits && demands[n].Cmp(left) <= 0 {
			left = left.Sub(demands[n])
			n++
		}
		fits = n
	}
	return int32(fits)
}

// leastShare is the least that an opening takes of one of the resources of a device. All shares of a
// device take of the same resources.
func (s *search) leastShare(o *opening, i int32, part int) (least amount.Amount) {
	for n, option := range o.options {
		if share := s.p.Domains[option.Domain].share(i); share == nil {
			return amount.Amount{}
		} else if n == 0 || share[part].Amount.Cmp(least) < 0 {
			least = share[part].Amount
		}
	}
	return least
}
