// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ranking keeps numbers in the order of their scores, while the scores change.
package ranking

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Order has the numbers from 0 on with a score each. The zero value has none. Setting a score takes logarithmic time, and so does
// taking the first of an Order of which few scores went down. Memory is in proportion to the numbers. It is not safe for concurrent use.
type Order struct {
	scores []float64 // NaN for numbers that are left out
	// entries have each number with its score, and with others that it had before.
	entries entries
}

// Resize has n numbers from now on. Those that are new are left out until they are set.
func (o *Order) Resize(n int) {
	o.scores = o.scores[:min(len(o.scores), n)]
	for len(o.scores) < n {
		o.scores = append(o.scores, math.NaN())
	}
}

// spare is how many entries there may be that are out of date, beside twice the numbers.
const spare = 64

// Set gives a number a score. NaN leaves it out.
func (o *Order) Set(number int, score float64) {
	if o.scores[number] = score; math.IsNaN(score) {
		return
	}
	heap.Push(&o.entries, entry{number, score})
	if len(o.entries) > 2*len(o.scores)+spare {
		o.entries = slices.DeleteFunc(o.entries, func(e entry) bool { return !o.current(e) })
		slices.SortFunc(o.entries, entry.compare)
		o.entries = slices.Compact(o.entries)
	}
}

// First is the number with the highest score, the lowest of several. It is false if there is none.
func (o *Order) First() (number int, found bool) {
	for len(o.entries) > 0 {
		if first := o.entries[0]; o.current(first) {
			return first.number, true
		}
		heap.Pop(&o.entries)
	}
	return 0, false
}

// current reports whether the number is there, and has the score still.
func (o *Order) current(e entry) bool {
	return e.number < len(o.scores) && o.scores[e.number] == e.score
}

type entry struct {
	number int
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
