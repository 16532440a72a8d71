// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ranking keeps numbers in the order of their scores, while these change. Numbers with equal keys have equal scores. So they
// are kept in [Groups], and each [Order] of them has the groups:
//
//	numbers ──Put──► Groups   one for all that agree which numbers are alike
//	                   │ which groups have another first number
//	                   ▼
//	score ──Follow──► Order   one for each way to score
package ranking

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Order has groups of numbers with a score each. The zero value has none. It takes time in proportion to the groups that have
// another first number than before, with a logarithmic factor. Memory is in proportion to the groups with a score. It is not safe
// for concurrent use.
type Order[K comparable] struct {
	// edition is that of the groups, seen is how many of its changes were followed.
	edition, seen int
	followed      bool
	// entries have each group with its score and first number, and with others that were first before.
	entries entries
}

// Follow scores the groups of which the first number changed since it was asked last. Score is asked about the first number of a
// group; NaN leaves the group out. After an error, the Order must not be used any more.
func (o *Order[K]) Follow(g *Groups[K], score func(first int) (float64, error)) error {
	if !o.followed || o.edition != g.edition {
		*o = Order[K]{edition: g.edition, followed: true, seen: len(g.changed)}
		for i := range g.groups {
			if err := o.set(g, int32(i), score); err != nil {
				return err
			}
		}
		return nil
	}
	for ; o.seen < len(g.changed); o.seen++ {
		if err := o.set(g, g.changed[o.seen], score); err != nil {
			return err
		}
	}
	return nil
}

// set gives a group a score.
func (o *Order[K]) set(g *Groups[K], n int32, score func(first int) (float64, error)) error {
	first, found := g.first(n)
	if !found {
		return nil
	}
	s, err := score(first)
	if err != nil || math.IsNaN(s) {
		return err
	}
	heap.Push(&o.entries, entry{n, first, s})
	if len(o.entries) > 2*len(g.groups)+spare {
		o.entries = slices.DeleteFunc(o.entries, func(e entry) bool { return !g.current(e) })
		slices.SortFunc(o.entries, entry.compare)
		o.entries = slices.Compact(o.entries)
	}
	return nil
}

// First is the number with the highest score, the lowest of several. It is false if there is none. The groups must not have
// changed since they were followed.
func (o *Order[K]) First(g *Groups[K]) (number int, found bool) {
	for len(o.entries) > 0 {
		if first := o.entries[0]; g.current(first) {
			return first.number, true
		}
		heap.Pop(&o.entries)
	}
	return 0, false
}

// current reports whether the number is still the first of the group.
func (g *Groups[K]) current(e entry) bool {
	first, found := g.first(e.group)
	return found && first == e.number
}

// entry is a group as it was scored.
type entry struct {
	group  int32
	number int // the first of the group
	score  float64
}

// compare has the highest score first, then the lowest number.
func (e entry) compare(other entry) int {
	return cmp.Or(cmp.Compare(other.score, e.score), cmp.Compare(e.number, other.number))
}

// entries implements heap.Interface.
type entries []entry

// Len implements sort.Interface.
func (h entries) Len() int { return len(h) }

// Less implements sort.Interface.
func (h entries) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }

// Swap implements sort.Interface.
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *entries) Push(e any) { *h = append(*h, e.(entry)) }

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
