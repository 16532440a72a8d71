// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keys writes what devices, pools, nodes and requests look like, as keys of what is remembered: equal keys
// mean equal answers, by position.
//
//	internal/reads      the table: each field of the API, and its role
//	      ▲
//	internal/keys       writers: each part of a key names the rows that it covers
//	      ▲
//	allocator, simulate  what is remembered under such keys
//
// A Writer is a list of parts. Tests compare the rows that all parts cover with the table, and leave one part out at a time,
// after which they must see wrong answers.
package keys

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
)

// Row is a row of the table.
type Row struct {
	Root *reads.Root
	Path string
}

// Rows are those of a root with these paths.
func Rows(root *reads.Root, paths ...string) []Row {
	rows := make([]Row, len(paths))
	for i, path := range paths {
		rows[i] = Row{root, path}
	}
	return rows
}

// Keyed are the rows of a root at a path and below it that keys have to tell apart.
func Keyed(root *reads.Root, path string) (rows []Row) {
	for i := range root.Rows {
		if row := &root.Rows[i]; row.Role.Keyed() && strings.HasPrefix(row.Path, path) {
			rows = append(rows, Row{root, row.Path})
		}
	}
	return rows
}

// AppendWhole appends all of an object, or of a part of one. It is for what an answer repeats, so that it cannot be shared.
func AppendWhole(k *memo.Key, object interface {
	Size() int
	MarshalToSizedBuffer(to []byte) (int, error)
},
) {
	size := object.Size()
	k.Number(size)
	at := len(k.Bytes)
	k.Bytes = slices.Grow(k.Bytes, size)[:at+size]
	if _, err := object.MarshalToSizedBuffer(k.Bytes[at:]); err != nil {
		panic(fmt.Sprintf("a %T cannot be encoded: %v", object, err)) // it is plain data
	}
}

// Part writes what some rows say of an object. It says itself where it ends.
type Part[T any] struct {
	Covers []Row
	Write  func(k *memo.Key, of T)
}

// Writer is all that is written of an object, part by part. It is changed by tests only.
type Writer[T any] []Part[T]

// Append appends all parts.
func (w Writer[T]) Append(k *memo.Key, of T) {
	for i := range w {
		w[i].Write(k, of)
	}
}

// Omission is a part that can be left out, for tests.
type Omission struct {
	Covers []Row
	// Omit leaves it out until the function that it returns is called.
	Omit func() (restore func())
}

// Omissions lists the parts of a writer. Parts that cover no row are left out: they say where things end.
func Omissions[T any](w *Writer[T]) (list []Omission) {
	for i := range *w {
		covers := (*w)[i].Covers
		if len(covers) == 0 {
			continue
		}
		list = append(list, Omission{covers, func() func() {
			all := *w
			*w = slices.Delete(slices.Clone(all), i, i+1)
			return func() { *w = all }
		}})
	}
	return list
}
