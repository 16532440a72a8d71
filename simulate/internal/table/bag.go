// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"iter"
	"maps"
)

// Bag is a multiset. It is copied on write: copying the struct makes a version, after which neither may be
// written with the edition used before. The first write of an edition copies the bag. The zero value is empty.
type Bag[K comparable] struct {
	// one is the only element of a bag with alone occurrences of it. Most bags have a single element.
	one   K
	alone int
	times map[K]int // occurrences by element, nil if one is used
	owner *Edition  // may write to times
}

// Len is the number of different elements.
func (b *Bag[K]) Len() int { return max(len(b.times), min(b.alone, 1)) }

// Times is how often an element occurs.
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

// Add adds one occurrence of an element.
func (b *Bag[K]) Add(k K, by *Edition) {
	if b.Len() == 0 || b.alone > 0 && b.one == k {
		*b = Bag[K]{one: k, alone: b.alone + 1}
		return
	}
	b.own(by)
	b.times[k]++
}

// Remove removes one occurrence of an element, if there is any.
func (b *Bag[K]) Remove(k K, by *Edition) {
	switch n := b.Times(k); {
	case n == 0:
	case n == 1 && b.Len() == 1:
		*b = Bag[K]{} // avoids copying the map
	case b.alone > 0:
		b.alone--
	default:
		b.own(by)
		if b.times[k]--; b.times[k] == 0 {
			delete(b.times, k)
		}
	}
}

// Equal reports whether each element occurs equally often in two bags.
func (b *Bag[K]) Equal(other *Bag[K]) bool {
	for k := range b.All() {
		if b.Times(k) != other.Times(k) {
			return false
		}
	}
	return b.Len() == other.Len()
}

// Release copies the bag, so that the edition that wrote it no longer can.
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
