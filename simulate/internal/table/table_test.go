// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Versions of a table are like copies of a slice.
func TestTableIsLikeCopies(t *testing.T) {
	type version struct {
		table Table[int]
		plain []int
	}
	random := rand.New(rand.NewPCG(1, 47))
	versions := []version{{}}
	for range 400 {
		from := versions[random.IntN(len(versions))]
		next := version{from.table, slices.Clone(from.plain)}
		by := new(Edition)
		for range random.IntN(6) {
			i, value := random.IntN(len(next.plain)+3*pageItems/2), random.Int()
			if random.IntN(2) == 0 {
				i = random.IntN(len(next.plain) + 1)
			}
			for len(next.plain) <= i {
				next.plain = append(next.plain, 0)
			}
			next.plain[i] = value
			*next.table.Edit(i, by) = value
		}
		changed := slices.Collect(next.table.Changes(&from.table))
		for i, value := range next.plain {
			if (i >= len(from.plain) || from.plain[i] != value) && !slices.Contains(changed, i) {
				t.Fatalf("element %d changed; listed are %v", i, changed)
			}
		}
		if most := 6*chunkSize + len(next.plain) - len(from.plain); len(changed) > most {
			t.Fatalf("%d elements are listed as changed, want at most %d", len(changed), most)
		}
		if versions = append(versions, next); len(versions) > 20 {
			versions = versions[1:]
		}
		for _, v := range versions {
			if v.table.Len() != len(v.plain) {
				t.Fatalf("%d elements, want %d", v.table.Len(), len(v.plain))
			}
			for i, want := range v.plain {
				if got := *v.table.At(i); got != want {
					t.Fatalf("element %d is %d, want %d", i, got, want)
				}
			}
		}
	}
}
