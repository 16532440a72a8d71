// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package ranking

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestOrder compares with looking at all numbers, while these come, go, and get other keys. Two orders follow at their own pace.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var g Groups[int]
	var orders [2]Order[int]
	var keyOf []int
	seen := map[string]int{}
	keys := 4
	score := func(which, key int) float64 {
		if (key+which)%5 == 0 {
			return math.NaN()
		}
		return float64((key*7 + which*3) % 4)
	}
	for step := range 300_000 {
		if step%1000 == 0 {
			keys = []int{4, 40, 4000}[r.IntN(3)]
		}
		before := g.edition
		switch r.IntN(40) {
		case 0:
			n := r.IntN(60)
			for g.Resize(n); len(keyOf) < n; {
				keyOf = append(keyOf, none)
			}
			keyOf = keyOf[:n]
		default:
			if len(keyOf) == 0 {
				continue
			}
			number, key := r.IntN(len(keyOf)), r.IntN(keys)
			if keyOf[number] = key; r.IntN(5) == 0 {
				keyOf[number] = none
				g.Drop(number)
			} else {
				g.Put(number, key)
			}
		}
		if g.edition != before {
			seen["edition"]++
		}
		checkBounds(t, &g, len(keyOf))
		which := r.IntN(20)
		if which > 1 {
			continue // changes pile up
		}
		want, there := highest(keyOf, func(key int) float64 { return score(which, key) })
		o := &orders[which]
		if err := o.Follow(&g, func(first int) (float64, error) { return score(which, keyOf[first]), nil }); err != nil {
			t.Fatal(err)
		}
		got, found := o.First(&g)
		if found != there || found && got != want {
			t.Fatalf("step %d: %d (%t) of %v, want %d (%t)", step, got, found, keyOf, want, there)
		}
		if len(o.entries) > 2*len(g.groups)+spare {
			t.Fatalf("step %d: %d entries for %d groups", step, len(o.entries), len(g.groups))
		}
		seen[map[bool]string{false: "none", true: "found"}[found]]++
	}
	for _, kind := range []string{"edition", "none", "found"} {
		if seen[kind] == 0 {
			t.Errorf("never: %s", kind)
		}
	}
}

// none is the key of a number that is in no group.
const none = -1

// highest looks at all numbers.
func highest(keyOf []int, score func(key int) float64) (number int, found bool) {
	for i, key := range keyOf {
		if key == none || math.IsNaN(score(key)) {
			continue
		}
		if !found || score(key) > score(keyOf[number]) {
			number, found = i, true
		}
	}
	return number, found
}

// checkBounds fails if there is much that is out of date.
func checkBounds(t *testing.T, g *Groups[int], numbers int) {
	t.Helper()
	members := 0
	for i := range g.groups {
		members += len(g.groups[i].members)
	}
	if len(g.byKey) != len(g.groups) || len(g.groups) > 2*numbers+3*spare || len(g.changed) > 2*len(g.groups)+spare {
		t.Fatalf("%d numbers: %d keys, %d groups, %d changes", numbers, len(g.byKey), len(g.groups), len(g.changed))
	}
	if most := 2*numbers + (spare+1)*len(g.groups); members > most {
		t.Fatalf("%d numbers: %d members of %d groups", numbers, members, len(g.groups))
	}
}

// Only groups with another first number are scored again.
func TestOrderScoresWhatChanged(t *testing.T) {
	var g Groups[string]
	g.Resize(1000)
	for i := range 1000 {
		g.Put(i, []string{"a", "b", "c"}[i%3])
	}
	var o Order[string]
	scored := 0
	follow := func() {
		t.Helper()
		if err := o.Follow(&g, func(first int) (float64, error) { scored++; return float64(first), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if follow(); scored != 3 {
		t.Errorf("%d groups are scored, want 3", scored)
	}
	g.Put(500, "a")
	g.Drop(501)
	if follow(); scored != 3 {
		t.Errorf("%d groups are scored after changes behind the first numbers, want 3", scored)
	}
	g.Put(0, "b")
	if follow(); scored != 5 {
		t.Errorf("%d groups are scored after the first number of a changed to b, want 5", scored)
	}
	for range 10_000 {
		g.Drop(999)
		g.Put(999, "a")
	}
	if n := len(g.groups[0].members); n > 2*g.groups[0].size+spare {
		t.Errorf("%d members are kept of a group of %d", n, g.groups[0].size)
	}
	failure := errors.New("no")
	g.Drop(0)
	if err := o.Follow(&g, func(int) (float64, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("the error is %v", err)
	}
}
