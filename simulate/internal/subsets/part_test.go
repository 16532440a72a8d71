// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package subsets

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// sets lists the sets of parts as masks, in order.
func sets(parts ...Part) []uint {
	var list []uint
	for _, p := range parts {
		var forced uint
		for _, n := range p.Forced {
			forced |= 1 << n
		}
		for chosen := range uint(1) << len(p.Free) {
			mask := forced
			for i, n := range p.Free {
				mask |= chosen >> i & 1 << n
			}
			list = append(list, mask)
		}
	}
	slices.Sort(list)
	return list
}

// With and Without are what filtering all sets gives.
func TestParts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		order := random.Perm(6)
		forced, free := random.IntN(4), random.IntN(3)
		p := Part{Forced: order[:forced], Free: order[forced : forced+free]}
		numbers := random.Perm(6)[:random.IntN(4)]
		before := sets(p)
		var with uint
		for _, n := range numbers {
			with |= 1 << n
		}
		want := slices.DeleteFunc(slices.Clone(before), func(set uint) bool { return set&with != with })
		if got := sets(p.With(numbers...)...); !slices.Equal(got, want) {
			t.Fatalf("%+v with %v: %b, want %b", p, numbers, got, want)
		}
		without := random.IntN(6)
		want = slices.DeleteFunc(slices.Clone(before), func(set uint) bool { return set>>without&1 == 1 })
		if got := sets(p.Without(without)...); !slices.Equal(got, want) {
			t.Fatalf("%+v without %d: %b, want %b", p, without, got, want)
		}
		if !slices.Equal(before, sets(p)) {
			t.Fatal("the part changed")
		}
	}
}
