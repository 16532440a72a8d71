// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// flow decides, by augmenting paths, whether openings can be matched with devices so that no unit serves more
// openings than it can. A unit is a device, or a set of devices of which one may serve. A flow is a relaxation
// of the problem. So if none exists, there is no solution (Hall's theorem, where nothing is shared).
type flow struct {
	open []opening
	// held are the devices of each opening, by request. The next flow starts from them.
	held []*bitset.BitSet
	// unit maps each device to its unit, which has the number of one of its devices. If it is nil, each device
	// is a unit.
	unit []int32
	// room is how many more openings a unit can serve. full are devices that serve and whose unit has no room.
	room []int32
	full *bitset.BitSet
	// seen are the units, and seenOpen the openings, on which the current augmentation has been.
	seen, seenOpen *bitset.BitSet
}

func (s *search) newFlow() flow {
	n, requests := len(s.p.Devices), len(s.p.Requests)
	return flow{
		held: s.memory.setLists.Take(requests), room: s.memory.counts.Take(n), full: s.memory.sets.New(n),
		seen: s.memory.sets.New(n), seenOpen: s.memory.sets.New(requests),
	}
}

// fails reports whether some slot cannot have a device.
func (f *flow) fails(s *search, open []opening, unit []int32) bool {
	if len(open) < 2 && unit == nil {
		return false // the counting propagator covers one opening
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

// begin keeps the devices of the last flow as far as the openings can still have them.
func (f *flow) begin(s *search, open []opening, unit []int32) {
	f.open, f.unit = open, unit
	f.full.ClearAll()
	for i := range f.room {
		f.room[i] = 1
	}
	if unit == nil { // with units by value, no two devices may have the same value, shared or not
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

// holds returns the devices of an opening.
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

// augment gives an opening one more device. It moves other openings to other devices if necessary.
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

// move makes room in a unit: an opening gives up a device of the unit for another one.
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

// sharesLeft is an upper bound on how many openings can have a share of a device. For each resource, the
// smallest demands come first.
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

// leastShare is the minimum that an opening takes of one resource of a device. All shares of a device take of
// the same resources.
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
