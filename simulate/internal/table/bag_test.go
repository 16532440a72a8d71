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
	for range 2000 {
		v := &versions[random.IntN(len(versions))]
		switch k := random.IntN(3); random.IntN(6) {
		case 0: // both go on with editions of their own
			v.by = new(Edition)
			versions = append(versions, version{v.bag, maps.Clone(v.plain), new(Edition)})
		case 1: // only the other one has a new edition
			other := version{v.bag, maps.Clone(v.plain), new(Edition)}
			other.bag.Release()
			versions = append(versions, other)
		case 2, 3: // as often as not, so that bags become empty
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
			again := Bag[int]{times: v.plain}
			if !v.bag.Equal(&again) || v.bag.Len() != len(v.plain) {
				t.Fatalf("version %d has %v, want %v", i, v.bag.times, v.plain)
			}
			for k := range v.bag.All() {
				if v.plain[k] == 0 {
					t.Fatalf("version %d has %d, too", i, k)
				}
			}
		}
	}
}

// What an edition has written once, it writes to without a copy.
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
