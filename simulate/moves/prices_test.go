// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// leaving enumerates which pods leave a relaxed question's nodes.
func (r *relaxed) leaving(node int, cost float64, free, wanted, others []int, best *float64) {
	if cost >= *best {
		return
	}
	if node == len(r.nodes) {
		if r.placed(slices.Clone(free), wanted, others) {
			*best = cost
		}
		return
	}
	l := &r.nodes[node]
	for members := range 1 << len(l.pods) {
		now, then, list := l.free, cost, slices.Clone(others)
		for i, pod := range l.pods {
			if members>>i&1 == 1 {
				now, then = now+pod.devices, then+pod.cost
				if pod.size >= 0 {
					list = append(list, r.sizes[pod.size])
				}
			}
		}
		r.leaving(node+1, then, append(slices.Clip(free), now), wanted, list, best)
	}
}

// placed reports whether pods of some sizes fit on nodes with so many devices free, the wanted ones on those that they may come to.
func (r *relaxed) placed(free, wanted, others []int) bool {
	list, home := &others, false
	if len(wanted) > 0 {
		list, home = &wanted, true
	} else if len(others) == 0 {
		return true
	}
	size := (*list)[0]
	*list = (*list)[1:]
	for i, n := range free {
		if n < size || home && r.nodes[i].home == 0 {
			continue
		}
		free[i] -= size
		if r.placed(free, wanted, others) {
			return true
		}
		free[i] += size
	}
	return false
}

// No choice of pods that leave costs less than the bound by prices, and that is near the cheapest one mostly.
func TestPricesLikeEnumeration(t *testing.T) {
	possible, near := 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 17))
		r := &relaxed{sizes: []int{1, 2, 4, 2, 4}, moving: 3, wanted: []int{0, 0, 0, random.IntN(2), 1 + random.IntN(2)}}
		for range 2 + random.IntN(3) {
			l := loaded{count: 1, home: min(1, random.IntN(4)), free: random.IntN(3)}
			for range random.IntN(4) {
				pod := leaver{size: random.IntN(3), cost: float64(1 + random.IntN(3))}
				pod.devices = r.sizes[pod.size]
				if random.IntN(5) == 0 {
					pod.size = -1
				}
				l.pods = append(l.pods, pod)
			}
			r.nodes = append(r.nodes, l)
		}
		var wanted []int
		for size, n := range r.wanted {
			wanted = append(wanted, slices.Repeat([]int{r.sizes[size]}, n)...)
		}
		least := math.Inf(1)
		r.leaving(0, 0, nil, wanted, nil, &least)
		bound, _ := r.bound(make([]float64, len(r.sizes)), manyPrices)
		if bound > least+1e-9 {
			t.Fatalf("seed %d: the bound is %v, by enumeration it costs %v: %+v", seed, bound, least, r)
		}
		if !math.IsInf(least, 1) {
			possible++
			if bound > 0.7*least-1e-9 {
				near++
			}
		}
	}
	t.Logf("of %d questions with an answer, the bound is near it for %d", possible, near)
	if possible < 70 || near < possible*9/10 {
		t.Errorf("of %d questions with an answer, the bound is near it for %d", possible, near)
	}
}
