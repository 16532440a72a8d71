// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"iter"
	"maps"
)

// Bag is a set in which an element may be several times. Copying the struct makes a version; both may go on
// once neither writes with the edition of before. The first write of an edition copies the bag. The zero
// value is empty.
type Bag[K comparable] struct {
	times map[K]int
	owner *Edition // of the map
}

// Len is how many different elements there are.
func (b *Bag[K]) Len() int { return len(b.times) }

// Times is how often an element is there.
func (b *Bag[K]) Times(k K) int { return b.times[k] }

// All lists the different elements, in no order.
func (b *Bag[K]) All() iter.Seq[K] { return maps.Keys(b.times) }

// Add adds an element once.
func (b *Bag[K]) Add(k K, by *Edition) {
	b.own(by)
	b.times[k]++
}

// Remove takes an element away once, if it is there.
func (b *Bag[K]) Remove(k K, by *Edition) {
	switch n := b.times[k]; {
	case n == 0:
		return
	case n == 1 && len(b.times) == 1:
		*b = Bag[K]{} // without a copy of the map
		return
	}
	b.own(by)
	if b.times[k]--; b.times[k] == 0 {
		delete(b.times, k)
	}
}

// Equal reports whether two bags have the same elements as often.
func (b *Bag[K]) Equal(other *Bag[K]) bool { return maps.Equal(b.times, other.times) }

// Release makes a version that the edition which wrote it before does not write to.
func (b *Bag[K]) Release() { b.times, b.owner = maps.Clone(b.times), nil }

func (b *Bag[K]) own(by *Edition) {
	if b.owner == by && b.times != nil {
		return
	}
	times := make(map[K]int, len(b.times)+1)
	maps.Copy(times, b.times)
	b.times, b.owner = times, by
}
