// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package persist

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

func TestMapBehavesLikeMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few hashes, which agree in their low bits: collisions and deep levels.
		hash := func(key int) uint64 { return uint64(key%7) << 33 }
		var m Map[int, int]
		model := make(map[int]int)
		type version struct {
			m     Map[int, int]
			model map[int]int
		}
		var versions []version
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			versions = append(versions, version{m, maps.Clone(model)})
			key := rapid.IntRange(0, 20).Draw(t, "key")
			switch rapid.SampledFrom([]string{"set", "set", "unset", "edit"}).Draw(t, "change") {
			case "set":
				value := rapid.Int().Draw(t, "value")
				m, model[key] = m.with(hash(key), key, value), value
			case "unset":
				m = m.without(hash(key), key)
				delete(model, key)
			case "edit":
				edit := m.Edit()
				for _, key := range rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "keys") {
					at := edit.at(hash(key), key)
					if *at != model[key] {
						t.Fatalf("key %d: %d in an edit, want %d", key, *at, model[key])
					}
					*at++
					model[key]++
				}
				m = edit.Done()
			}
		}
		for _, v := range append(versions, version{m, model}) {
			if v.m.IsEmpty() != (len(v.model) == 0) {
				t.Fatalf("IsEmpty is %t with %d keys", v.m.IsEmpty(), len(v.model))
			}
			for key := range 21 {
				got, ok := v.m.get(hash(key), key)
				if want, has := v.model[key]; got != want || ok != has {
					t.Fatalf("key %d: got %d, %t, want %d, %t", key, got, ok, want, has)
				}
			}
		}
		for key := range model {
			m = m.without(hash(key), key)
		}
		if !m.IsEmpty() {
			t.Fatal("an emptied map keeps nodes")
		}
	})
}

func TestMapOfManyKeys(t *testing.T) {
	var m Map[string, int]
	key := func(i int) string { return string(rune('a' + i)) }
	const n = 5000
	for i := range n {
		m = m.With(key(i), i)
	}
	for i := range n {
		if got, ok := m.Get(key(i)); got != i || !ok {
			t.Fatalf("key %d: got %d, %t", i, got, ok)
		}
	}
	if _, ok := m.Get("none"); ok {
		t.Fatal("wrong keys")
	}
	for i := range n {
		m = m.Without(key(i))
	}
	if !m.IsEmpty() {
		t.Fatal("not empty")
	}
}

func TestArrayVersionsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		indices := rapid.SliceOf(rapid.IntRange(0, 300)).Draw(t, "indices")
		var a Array[int]
		versions := []Array[int]{a}
		for value, i := range indices {
			a = a.With(i, value+1)
			versions = append(versions, a)
		}
		for n, version := range versions {
			model := make(map[int]int)
			for value, i := range indices[:n] {
				model[i] = value + 1
			}
			for i := range 400 {
				if version.Get(i) != model[i] {
					t.Fatalf("version %d: element %d is %d, want %d", n, i, version.Get(i), model[i])
				}
			}
		}
	})
}

func BenchmarkMapWith(b *testing.B) {
	var m Map[int, int]
	for i := range 50_000 {
		m = m.With(i, i)
	}
	for i := 0; b.Loop(); i++ {
		m.With(i%50_000, i)
	}
}

func TestEditAndDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Array[int]
		model := make(map[int]int)
		for range rapid.IntRange(1, 5).Draw(t, "edits") {
			edit, changed := a.Edit(), maps.Clone(model)
			for range rapid.IntRange(0, 10).Draw(t, "changes") {
				i, v := rapid.IntRange(0, 4*chunkSize).Draw(t, "index"), rapid.IntRange(0, 3).Draw(t, "value")
				edit.Set(i, v)
				changed[i] = v
			}
			b := edit.Done()
			for i := range 5 * chunkSize {
				if a.Get(i) != model[i] || b.Get(i) != changed[i] {
					t.Fatalf("element %d: %d and %d, want %d and %d", i, a.Get(i), b.Get(i), model[i], changed[i])
				}
			}
			checkDifferences(t, a, b)
			checkDifferences(t, b, a)
			a, model = b, changed
		}
	})
}

func checkDifferences(t *rapid.T, a, b Array[int]) {
	next := 0
	skip := func(to int) {
		for ; next < to; next++ {
			if a.Get(next) != b.Get(next) {
				t.Fatalf("difference at %d was passed over", next)
			}
		}
	}
	Differences(a, b, func(i, x, y int) {
		skip(i)
		if x == y || x != a.Get(i) || y != b.Get(i) {
			t.Fatalf("difference at %d: %d and %d", i, x, y)
		}
		next = i + 1
	})
	skip(6 * chunkSize)
}

// Chunks that two arrays share are not compared.
func TestDifferencesPassesOverSharedChunks(t *testing.T) {
	var a Array[*int]
	edit := a.Edit()
	for i := range 100 * chunkSize {
		edit.Set(i, new(int))
	}
	a = edit.Done()
	b := a.With(50*chunkSize+3, nil)
	for c := range a.chunks {
		if (a.chunks[c] == b.chunks[c]) != (c != 50) {
			t.Errorf("chunk %d: not exactly the changed chunk was copied", c)
		}
	}
}
