// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package subsets

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// rule says which sets suffice: those whose weights reach a limit. It is another limit for sets with all users.
type rule struct {
	weights      []int
	users        []int
	with, others int
}

func (r *rule) suffices(set []int) bool {
	sum, limit := 0, r.with
	for _, n := range set {
		sum += r.weights[n]
	}
	if slices.ContainsFunc(r.users, func(n int) bool { return !slices.Contains(set, n) }) {
		limit = r.others
	}
	return sum >= limit
}

// least tries all sets.
func (r *rule) least(costs []float64) float64 {
	best := math.Inf(1)
	for mask := range uint(1) << len(costs) {
		var set []int
		cost := 0.0
		for n := range costs {
			if mask>>n&1 == 1 {
				set, cost = append(set, n), cost+costs[n]
			}
		}
		if r.suffices(set) {
			best = min(best, cost)
		}
	}
	return best
}

// The cheapest set is that of all sets. If the search is given up, the set suffices, has no spare number, and is not said to be
// the cheapest unless it is.
func TestCheapest(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	seen := make(map[string]int)
	for range 4000 {
		r := &rule{with: random.IntN(30), others: random.IntN(30)}
		costs := make([]float64, random.IntN(8))
		parts := []Part{{}}
		for n := range costs {
			costs[n], r.weights = float64(random.IntN(5)), append(r.weights, random.IntN(8))
			parts[0].Free = append(parts[0].Free, n)
		}
		slices.Sort(costs)
		if r.users = random.Perm(len(costs))[:random.IntN(len(costs)+1)]; len(r.users) > 0 {
			all := parts[0]
			parts = all.With(r.users...)
			for _, n := range r.users {
				parts = append(parts, all.Without(n)...)
			}
		}
		most := math.MaxInt
		if random.IntN(3) == 0 {
			most = random.IntN(4)
		}
		s := Search{Costs: costs, Most: most, Suffices: func(set []int) (bool, error) { return r.suffices(set), nil }}
		found, err := s.Cheapest(parts)
		best := r.least(costs)
		if err != nil || (found == nil) != math.IsInf(best, 1) {
			t.Fatalf("%+v, %v: %+v, %v; the least cost is %v", r, costs, found, err, best)
		}
		if found == nil {
			seen["none"]++
			continue
		}
		if !r.suffices(found.Numbers) || found.Cost < best || found.Cost > best && (found.Least || most == math.MaxInt) || !found.Least && most == math.MaxInt || s.tried > most {
			t.Fatalf("%+v, %v: %+v after %d of %d sets; the least cost is %v", r, costs, found, s.tried, most, best)
		}
		for i, n := range found.Numbers {
			if costs[n] > 0 && !slices.Contains(r.users, n) && r.suffices(slices.Concat(found.Numbers[:i], found.Numbers[i+1:])) {
				t.Fatalf("%+v, %v: %+v suffices without %d", r, costs, found, n)
			}
		}
		switch {
		case !found.Least:
			seen["given up"]++
		case len(r.users) > 0:
			seen["in parts"]++
		}
	}
	if seen["none"] < 100 || seen["given up"] < 100 || seen["in parts"] < 100 {
		t.Errorf("too little was seen: %v", seen)
	}
}

// An error ends the search, whichever set it comes with.
func TestCheapestEndsWithError(t *testing.T) {
	why := errors.New("no answer")
	for at := range 12 {
		for _, most := range []int{1, 100} {
			asked := 0
			s := Search{Costs: []float64{1, 2, 3}, Most: most, Suffices: func(set []int) (bool, error) {
				if asked++; asked > at {
					return false, why
				}
				return len(set) > 1, nil
			}}
			if found, err := s.Cheapest([]Part{{Free: []int{0, 1, 2}}}); asked > at && (!errors.Is(err, why) || asked != at+1) {
				t.Errorf("error at question %d, %d sets: %+v, %v after %d questions", at, most, found, err, asked)
			}
		}
	}
}
