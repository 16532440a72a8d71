// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subsets lists sets by cost, and finds the cheapest one that suffices.
package subsets

import (
	"container/heap"
	"iter"
	"slices"
)

// ByCost lists the non-empty subsets of a list of costs, the cheapest first. The costs must be ascending and
// not negative. A subset is given by its positions, ascending, and its total cost. Each takes time in
// proportion to its members and the logarithm of the sets before it.
func ByCost(costs []float64) iter.Seq2[[]int, float64] {
	return func(yield func([]int, float64) bool) {
		if len(costs) == 0 {
			return
		}
		queue := &queue{{members: []int{0}, cost: costs[0]}}
		for queue.Len() > 0 {
			next := heap.Pop(queue).(set)
			if !yield(next.members, next.cost) {
				return
			}
			queue.grow(next, costs)
		}
	}
}

// grow adds two sets that follow from one: with the next position added, and with it in place of the last. So
// each set is made once, and none before a cheaper one.
func (q *queue) grow(s set, costs []float64) {
	last := s.members[len(s.members)-1]
	if last+1 == len(costs) {
		return
	}
	heap.Push(q, set{members: append(slices.Clone(s.members), last+1), cost: s.cost + costs[last+1]})
	instead := slices.Clone(s.members)
	instead[len(instead)-1] = last + 1
	heap.Push(q, set{members: instead, cost: s.cost - costs[last] + costs[last+1]})
}

type set struct {
	members []int
	cost    float64
}

// queue is a heap of sets, the cheapest first.
type queue []set

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].cost < q[j].cost }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(set)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
