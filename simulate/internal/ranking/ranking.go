// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ranking orders numbers by scores that change. Numbers with equal keys have equal scores. So [Groups] divides
// the numbers by key, and each [Order] ranks the groups:
//
//	numbers ──Put──► Groups   shared by orders with the same keys
//	                   │ groups whose first number changed
//	                   ▼
//	score ──Follow──► Order   one for each scoring function
package ranking

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Order ranks groups of numbers by score. The zero value is empty. Following takes time in proportion to the groups
// whose first number changed, with a logarithmic factor. Memory is in proportion to the groups with a score. It is not
// safe for concurrent use.
type Order[K comparable] struct {
	// edition is the edition of the groups, seen the number of its changes that were followed.
	edition, seen int
	followed      bool
	// entries is a heap with each group's score and first number, and outdated entries.
	entries entries
}

// Follow scores the groups whose first number changed since the last call. score is called with the first number of a
// group; NaN excludes the group. After an error, the Order must not be used any more.
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

// set computes and stores the score of a group.
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

// First returns the number with the highest score, the lowest number of several. It is false if there is none. The
// groups must not have changed since the last Follow.
func (o *Order[K]) First(g *Groups[K]) (number int, found bool) {
	for len(o.entries) > 0 {
		if first := o.entries[0]; g.current(first) {
			return first.number, true
		}
		heap.Pop(&o.entries)
	}
	return 0, false
}

// current reports whether an entry has the present first number of its group.
func (g *Groups[K]) current(e entry) bool {
	first, found := g.first(e.group)
	return found && first == e.number
}

// entry is the score of a group, with its first number at that time.
type entry struct {
	group  int32
	number int // the first number of the group
	score  float64
}

// compare orders by score, highest first, then by number.
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
