// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package table has lists, and bags, of which versions share what is equal.
package table

import (
	"iter"
	"slices"
)

// Edition owns what it made, and may write to it.
type Edition struct{ _ byte }

// The first write of an edition to an element of a table copies the chunkSize elements around it, the pageSize
// pointers to these, and a pointer for each page.
const (
	chunkSize = 4
	pageSize  = 32
	pageItems = chunkSize * pageSize
)

// Table is a list of which versions share what is equal. Copying the struct makes a version; both may
// go on once neither writes with the edition of before. Versions may be read by any number of goroutines.
// The zero value is empty.
type Table[T any] struct {
	length int
	pages  []*page[T]
	owner  *Edition // of the list of pages
}

type page[T any] struct {
	owner  *Edition
	chunks [pageSize]*chunk[T]
}

type chunk[T any] struct {
	owner *Edition
	items [chunkSize]T
}

// Len is how many elements there are.
func (t *Table[T]) Len() int { return t.length }

// At returns element i, not to be written to.
func (t *Table[T]) At(i int) *T {
	return &t.pages[i/pageItems].chunks[i/chunkSize%pageSize].items[i%chunkSize]
}

// Edit returns element i to be written to on behalf of an edition. The list grows to hold it.
func (t *Table[T]) Edit(i int, by *Edition) *T {
	for t.length < i {
		t.Edit(t.length, by) // no element is left out
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

// Changes lists the elements of a table that may differ from those of another version, which is not
// longer. It looks at what differs, and at a pointer for each page.
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
