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
	// one is there alone, that often. Most bags have no more.
	one   K
	alone int
	times map[K]int // of all elements, nil unless there were several
	owner *Edition  // of the map
}

// Len is how many different elements there are.
func (b *Bag[K]) Len() int { return max(len(b.times), min(b.alone, 1)) }

// Times is how often an element is there.
func (b *Bag[K]) Times(k K) int {
	if b.alone > 0 && b.one == k {
		return b.alone
	}
	return b.times[k]
}

// All lists the different elements, in no order.
func (b *Bag[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		if b.alone > 0 {
			yield(b.one)
			return
		}
		maps.Keys(b.times)(yield)
	}
}

// Add adds an element once.
func (b *Bag[K]) Add(k K, by *Edition) {
	if b.Len() == 0 || b.alone > 0 && b.one == k {
		*b = Bag[K]{one: k, alone: b.alone + 1}
		return
	}
	b.own(by)
	b.times[k]++
}

// Remove takes an element away once, if it is there.
func (b *Bag[K]) Remove(k K, by *Edition) {
	switch n := b.Times(k); {
	case n == 0:
	case n == 1 && b.Len() == 1:
		*b = Bag[K]{} // without a copy of the map
	case b.alone > 0:
		b.alone--
	default:
		b.own(by)
		if b.times[k]--; b.times[k] == 0 {
			delete(b.times, k)
		}
	}
}

// Equal reports whether two bags have the same elements as often.
func (b *Bag[K]) Equal(other *Bag[K]) bool {
	for k := range b.All() {
		if b.Times(k) != other.Times(k) {
			return false
		}
	}
	return b.Len() == other.Len()
}

// Release makes a version that the edition which wrote it before does not write to.
func (b *Bag[K]) Release() { b.times, b.owner = maps.Clone(b.times), nil }

func (b *Bag[K]) own(by *Edition) {
	if b.owner == by && b.times != nil {
		return
	}
	times := make(map[K]int, b.Len()+1)
	for k := range b.All() {
		times[k] = b.Times(k)
	}
	*b = Bag[K]{times: times, owner: by}
}
