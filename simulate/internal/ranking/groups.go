// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package ranking

import (
	"container/heap"
	"slices"
)

// Groups divides numbers from 0 on into groups with equal keys, and tracks the lowest number of each group. Numbers
// without a key are in no group. The zero value is empty. Put takes logarithmic time. Memory is in proportion to the
// numbers. It is not safe for concurrent use.
type Groups[K comparable] struct {
	of     []int32 // the group of each number, or noGroup
	byKey  map[K]int32
	groups []group
	empty  int // groups without members
	// changed lists the groups whose first number changed in this edition, in order. A new edition invalidates earlier
	// group numbers and changes.
	changed []int32
	edition int
}

const noGroup = -1

// group is the numbers with one key.
type group struct {
	size    int
	members numbers // a heap, with outdated and duplicate entries
}

// spare is how many outdated entries are kept, in addition to a number in proportion to the current ones.
const spare = 64

// Resize sets how many numbers there are. New ones are in no group.
func (g *Groups[K]) Resize(n int) {
	for i := n; i < len(g.of); i++ {
		g.Drop(i)
	}
	g.of = g.of[:min(len(g.of), n)]
	for len(g.of) < n {
		g.of = append(g.of, noGroup)
	}
}

// Put moves a number to the group of a key.
func (g *Groups[K]) Put(number int, key K) {
	if to, known := g.byKey[key]; known && g.of[number] == to {
		return
	}
	g.Drop(number)
	to, known := g.byKey[key] // Drop may renumber the groups
	if !known {
		if g.byKey == nil {
			g.byKey = make(map[K]int32)
		}
		to = int32(len(g.groups))
		g.byKey[key], g.groups = to, append(g.groups, group{})
		g.empty++
	}
	into := &g.groups[to]
	if into.size == 0 {
		g.empty--
	}
	first, found := g.first(to)
	g.of[number] = to
	into.add(number, func(n int) bool { return g.has(to, n) })
	if !found || number < first {
		g.note(to)
	}
}

// Drop removes a number from its group.
func (g *Groups[K]) Drop(number int) {
	from := g.of[number]
	if from == noGroup {
		return
	}
	first, _ := g.first(from)
	g.of[number] = noGroup
	if g.groups[from].size--; number == first {
		g.note(from)
	}
	if g.groups[from].size == 0 {
		if g.empty++; g.empty > len(g.groups)/2+spare {
			g.compact()
		}
	}
}

// first returns the lowest number of a group. It is false if the group is empty.
func (g *Groups[K]) first(n int32) (number int, found bool) {
	members := &g.groups[n].members
	for len(*members) > 0 {
		if number = (*members)[0]; g.has(n, number) {
			return number, true
		}
		heap.Pop(members)
	}
	return 0, false
}

// has reports whether a number is in a group.
func (g *Groups[K]) has(n int32, number int) bool { return number < len(g.of) && g.of[number] == n }

// note records that the first number of a group changed.
func (g *Groups[K]) note(n int32) {
	if g.changed = append(g.changed, n); len(g.changed) > 2*len(g.groups)+spare {
		g.changed = nil
		g.edition++
	}
}

// compact removes empty groups and renumbers the others.
func (g *Groups[K]) compact() {
	to := make([]int32, len(g.groups))
	var kept []group
	for i := range g.groups {
		if to[i] = noGroup; g.groups[i].size > 0 {
			to[i], kept = int32(len(kept)), append(kept, g.groups[i])
		}
	}
	for i, n := range g.of {
		if n != noGroup {
			g.of[i] = to[n]
		}
	}
	for key, n := range g.byKey {
		if to[n] == noGroup {
			delete(g.byKey, key)
		} else {
			g.byKey[key] = to[n]
		}
	}
	g.groups, g.empty, g.changed = kept, 0, nil
	g.edition++
}

// add adds a number to a group.
func (g *group) add(number int, member func(int) bool) {
	heap.Push(&g.members, number)
	if g.size++; len(g.members) > 2*g.size+spare {
		g.members = slices.DeleteFunc(g.members, func(n int) bool { return !member(n) })
		slices.Sort(g.members)
		g.members = slices.Compact(g.members)
	}
}

// numbers is a min-heap.
type numbers []int

// Len implements sort.Interface.
func (h numbers) Len() int { return len(h) }

// Less implements sort.Interface.
func (h numbers) Less(i, j int) bool { return h[i] < h[j] }

// Swap implements sort.Interface.
func (h numbers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *numbers) Push(n any) { *h = append(*h, n.(int)) }

// Pop implements heap.Interface.
func (h *numbers) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
