// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slab hands out memory that is taken back all at once. It saves allocations where many small problems
// are set up one after the other. It is for one goroutine at a time.
package slab

import "github.com/bits-and-blooms/bitset"

// Slab gives out parts of an array. The zero value is ready to use.
type Slab[T any] struct {
	array []T
	// used is how many elements are handed out. asked is how many were asked for since the last Reset.
	used, asked int
}

// most bounds the elements that are kept after a Reset.
const most = 1 << 16

// Take returns n zero values. Appending to them does not overwrite others.
func (s *Slab[T]) Take(n int) []T {
	s.asked += n
	if s.used+n > len(s.array) {
		// Slices that were handed out keep the old array alive.
		s.array, s.used = make([]T, max(n, min(len(s.array), most/2))), 0
	}
	part := s.array[s.used : s.used+n : s.used+n]
	s.used += n
	return part
}

// Empty returns a slice of length zero and capacity n.
func (s *Slab[T]) Empty(n int) []T { return s.Take(n)[:0] }

// Reset takes everything back. Nothing that was handed out may be used afterwards.
func (s *Slab[T]) Reset() {
	switch {
	case s.asked > most:
		s.array = nil
	case s.asked > len(s.array):
		s.array = make([]T, s.asked)
	default:
		clear(s.array[:s.used])
	}
	s.used, s.asked = 0, 0
}

// Sets hands out bit sets.
type Sets struct {
	words Slab[uint64]
	sets  Slab[bitset.BitSet]
}

// New returns an empty set for n elements.
func (s *Sets) New(n int) *bitset.BitSet {
	set := &s.sets.Take(1)[0]
	*set = *bitset.FromWithLength(uint(n), s.words.Take((n+63)/64))
	return set
}

// Clone copies a set.
func (s *Sets) Clone(of *bitset.BitSet) *bitset.BitSet {
	set := s.New(int(of.Len()))
	copy(set.Words(), of.Words())
	return set
}

// Reset takes all sets back.
func (s *Sets) Reset() {
	s.words.Reset()
	s.sets.Reset()
}
