// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// Versions of a bag are like copies of a map.
func TestBagIsLikeCopies(t *testing.T) {
	type version struct {
		bag   Bag[int]
		plain map[int]int
		by    *Edition
	}
	random := rand.New(rand.NewPCG(1, 50))
	versions := []version{{plain: make(map[int]int), by: new(Edition)}}
	for range 4000 {
		v := &versions[random.IntN(len(versions))]
		switch k := random.IntN(1 + random.IntN(3)); random.IntN(7) {
		case 0: // both go on with editions of their own
			v.by = new(Edition)
			versions = append(versions, version{v.bag, maps.Clone(v.plain), new(Edition)})
		case 1: // only the other one has a new edition
			other := version{v.bag, maps.Clone(v.plain), new(Edition)}
			other.bag.Release()
			versions = append(versions, other)
		case 2: // an empty one
			versions = append(versions, version{plain: make(map[int]int), by: new(Edition)})
		case 3, 4: // as often as not, so that bags become empty
			v.bag.Remove(k, v.by)
			if v.plain[k]--; v.plain[k] <= 0 {
				delete(v.plain, k)
			}
		default:
			v.bag.Add(k, v.by)
			v.plain[k]++
		}
		if len(versions) > 10 {
			versions = versions[1:]
		}
		for i := range versions {
			v := &versions[i]
			if v.bag.Len() != len(v.plain) {
				t.Fatalf("version %d has %v, want %v", i, v.bag, v.plain)
			}
			for other := range versions {
				if equal := maps.Equal(v.plain, versions[other].plain); v.bag.Equal(&versions[other].bag) != equal {
					t.Fatalf("versions %d and %d are equal: %t, want %t", i, other, !equal, equal)
				}
			}
			listed := 0
			for k := range v.bag.All() {
				if listed++; v.plain[k] == 0 || v.plain[k] != v.bag.Times(k) {
					t.Fatalf("version %d has %d %d times, want %d", i, k, v.bag.Times(k), v.plain[k])
				}
			}
			if listed != len(v.plain) {
				t.Fatalf("version %d lists %d elements, want %d", i, listed, len(v.plain))
			}
		}
	}
}

// An edition writes to its own copy without copying again.
func TestBagIsCopiedOnce(t *testing.T) {
	var bag Bag[int]
	by := new(Edition)
	for i := range 1000 {
		bag.Add(i, by)
	}
	if n := testing.AllocsPerRun(100, func() {
		bag.Add(7, by)
		bag.Remove(7, by)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
