// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package persist

import "slices"

const chunkSize = 64

// Array is an immutable sparse array. An element that was never set is the zero value of T.
type Array[T any] struct {
	chunks []*[chunkSize]T
}

// Get returns element i, which must not be negative.
func (a Array[T]) Get(i int) (element T) {
	if c := i / chunkSize; c < len(a.chunks) && a.chunks[c] != nil {
		return a.chunks[c][i%chunkSize]
	}
	return element
}

// Len is an index from which on all elements are zero.
func (a Array[T]) Len() int { return len(a.chunks) * chunkSize }

// With returns an array in which element i is v. It copies one chunk of 64 elements
// and one pointer per 64 elements of the array.
func (a Array[T]) With(i int, v T) Array[T] {
	e := a.Edit()
	e.Set(i, v)
	return e.Done()
}

// Edit collects changes of an array, which itself stays unchanged. Each chunk of 64 elements with changes is
// copied once.
type Edit[T any] struct {
	of     Array[T]
	chunks []*[chunkSize]T // chunks of the array, or copies with changes
}

// Edit starts with the elements of the array.
func (a Array[T]) Edit() *Edit[T] { return &Edit[T]{of: a, chunks: slices.Clone(a.chunks)} }

// Set changes element i, which must not be negative.
func (e *Edit[T]) Set(i int, v T) {
	c := i / chunkSize
	for len(e.chunks) <= c {
		e.chunks = append(e.chunks, nil)
	}
	if e.chunks[c] == e.of.chunk(c) {
		copied := new([chunkSize]T)
		if e.chunks[c] != nil {
			*copied = *e.chunks[c]
		}
		e.chunks[c] = copied
	}
	e.chunks[c][i%chunkSize] = v
}

// Done returns the changed array. Set must not be called afterwards.
func (e *Edit[T]) Done() Array[T] { return Array[T]{chunks: e.chunks} }

// Differences calls visit for each index at which two arrays differ, in order. Shared chunks are skipped, so it
// is cheap if one array was made from the other.
func Differences[T comparable](a, b Array[T], visit func(i int, x, y T)) {
	for c := range max(len(a.chunks), len(b.chunks)) {
		x, y := a.chunk(c), b.chunk(c)
		if x == y {
			continue
		}
		for i := c * chunkSize; i < (c+1)*chunkSize; i++ {
			if before, after := a.Get(i), b.Get(i); before != after {
				visit(i, before, after)
			}
		}
	}
}

// chunk is nil if none of its elements was ever set.
func (a Array[T]) chunk(c int) *[chunkSize]T {
	if c < len(a.chunks) {
		return a.chunks[c]
	}
	return nil
}
