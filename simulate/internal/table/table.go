// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package table has lists and bags that are copied on write. Versions share equal parts.
package table

import (
	"iter"
	"slices"
)

// Edition identifies a writer. It may write in place to the parts that it copied.
type Edition struct{ _ byte }

// The first write of an edition to an element copies a chunk of elements, a page of pointers to chunks, and the
// list of pointers to pages.
const (
	chunkSize = 4
	pageSize  = 32
	pageItems = chunkSize * pageSize
)

// Table is a list that is copied on write. Copying the struct makes a version, after which neither may be
// written with the edition used before. Versions may be read by any number of goroutines. The zero value is
// empty.
type Table[T any] struct {
	length int
	pages  []*page[T]
	owner  *Edition // may write to pages
}

type page[T any] struct {
	owner  *Edition
	chunks [pageSize]*chunk[T]
}

type chunk[T any] struct {
	owner *Edition
	items [chunkSize]T
}

// Len is the number of elements.
func (t *Table[T]) Len() int { return t.length }

// At returns element i, for reading only.
func (t *Table[T]) At(i int) *T {
	return &t.pages[i/pageItems].chunks[i/chunkSize%pageSize].items[i%chunkSize]
}

// Edit returns element i for writing, on behalf of an edition. The list grows to hold it.
func (t *Table[T]) Edit(i int, by *Edition) *T {
	for t.length < i {
		t.Edit(t.length, by) // so that all elements before it exist
	}
	if t.owner != by {
		t.pages, t.owner = slices.Clone(t.pages), by
	}
	if len(t.pages) == i/pageItems {
		t.pages = append(t.pages, &page[T]{owner: by})
	}
	p := t.pages[i/pageItems]
	if p.owner != by {
		p = &page[T]{owner: by, chunks: p.chunks}
		t.pages[i/pageItems] = p
	}
	c := p.chunks[i/chunkSize%pageSize]
	switch {
	case c == nil:
		c = &chunk[T]{owner: by}
	case c.owner != by:
		c = &chunk[T]{owner: by, items: c.items}
	}
	p.chunks[i/chunkSize%pageSize] = c
	t.length = max(t.length, i+1)
	return &c.items[i%chunkSize]
}

// Changes lists the elements that may differ from those of another version, which is not longer. It takes time
// in proportion to the differences and the number of pages.
func (t *Table[T]) Changes(from *Table[T]) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n, p := range t.pages {
			var before *page[T]
			if n < len(from.pages) {
				before = from.pages[n]
			}
			if p == before {
				continue
			}
			for at, c := range p.chunks {
				if c == nil || before != nil && c == before.chunks[at] {
					continue
				}
				first := n*pageItems + at*chunkSize
				for i := first; i < min(first+chunkSize, t.length); i++ {
					if !yield(i) {
						return
					}
				}
			}
		}
	}
}
