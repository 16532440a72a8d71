// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keys writes the content of devices, pools, nodes and requests as keys for answers that are
// remembered. Equal keys mean equal answers, by position.
//
//	internal/reads      the table: each field of the API, and its role
//	      ▲
//	internal/keys       writers: each part of a key names the rows that it covers
//	      ▲
//	allocator, simulate  answers that are remembered under these keys
//
// A Writer is a list of parts. Tests compare the rows that all parts cover with the table. They also omit one
// part at a time, and must then see wrong answers.
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

// Rows returns the rows of a root with these paths.
func Rows(root *reads.Root, paths ...string) []Row {
	rows := make([]Row, len(paths))
	for i, path := range paths {
		rows[i] = Row{root, path}
	}
	return rows
}

// Keyed returns the rows of a root, at a path and below, whose values keys must distinguish.
func Keyed(root *reads.Root, path string) (rows []Row) {
	for i := range root.Rows {
		if row := &root.Rows[i]; row.Role.Keyed() && strings.HasPrefix(row.Path, path) {
			rows = append(rows, Row{root, row.Path})
		}
	}
	return rows
}

// AppendWhole appends a whole object, or a part of one. It is for what answers repeat, so that they are only
// shared if it is equal.
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
		panic(fmt.Sprintf("a %T cannot be encoded: %v", object, err)) // API objects are plain data
	}
}

// Part writes what some rows say of an object. What it writes must be self-delimiting.
type Part[T any] struct {
	Covers []Row
	Write  func(k *memo.Key, of T)
}

// Writer writes an object, part by part. Only tests change it.
type Writer[T any] []Part[T]

// Append appends all parts.
func (w Writer[T]) Append(k *memo.Key, of T) {
	for i := range w {
		w[i].Write(k, of)
	}
}

// Omission is a part that tests can omit.
type Omission struct {
	Covers []Row
	// Omit removes the part until restore is called.
	Omit func() (restore func())
}

// Omissions lists the parts of a writer that cover rows. The others only write flags and lengths.
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
