// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"math"
	"slices"
)

// relaxed is Find's question about one demand, where a node is a number of devices and a pod that moves goes to any node with as many
// devices free, whichever comes first. Pods of other kinds vanish once they leave. No plan costs less than the cheapest answer to that.
//
// With a price for a place of each size, each node is a question of its own: which pods leave it, and which come, so that what those that come
// pay for their places, less what it costs to make the others move and to pay for theirs, is most. What the wanted pods pay, less what
// all nodes earn, is then at most what the cheapest answer costs, whatever the prices are: a Lagrangian bound.
type relaxed struct {
	sizes  []int // devices of a pod, ascending
	wanted []int // by size: how many wanted pods
	nodes  []loaded
}

// loaded is what some nodes that are alike have free, and which pods may leave them.
type loaded struct {
	count int
	free  int
	pods  []leaver
}

// leaver is a pod that may leave a node.
type leaver struct {
	devices int // that are free without it
	size    int // position in relaxed.sizes; -1 for a pod that vanishes
	cost    float64
}

// manyPrices is how many prices are tried.
const manyPrices = 300

// bound looks for prices with which the bound is highest.
func (r *relaxed) bound() (best float64, prices []float64) {
	now := make([]float64, len(r.sizes))
	prices = slices.Clone(now)
	e := &earnings{relaxed: r}
	ahead, failed := 1.0, 0
	for range manyPrices {
		bound, slope := e.at(now)
		if bound > best {
			if bound > best+ahead/4 {
				ahead *= 1.5
			}
			best, prices, failed = bound, slices.Clone(now), 0
		} else if failed++; failed == 10 {
			ahead, failed = ahead/2, 0
			now = slices.Clone(prices)
			continue
		}
		steep := 0.0
		for _, s := range slope {
			steep += s * s
		}
		if steep == 0 {
			break // there is no higher bound
		}
		// The step would end at the bound that is hoped for if the slope stayed as it is.
		step := (best + ahead - bound) / steep
		for k, s := range slope {
			now[k] = max(0, now[k]+step*s)
		}
	}
	return best, prices
}

// earnings finds what nodes earn at some prices.
type earnings struct {
	*relaxed
	worth []float64 // by devices: what pods pay that come, at most
	last  []int     // by devices: the size of one of them, -1 for none
	costs []float64 // by pods, and devices that are free without them: what that costs at least
}

// at is the bound at some prices, and by size how many more pods want a place than get one.
func (e *earnings) at(prices []float64) (bound float64, slope []float64) {
	slope = make([]float64, len(prices))
	for k, price := range prices {
		slope[k] = float64(e.wanted[k])
		bound += slope[k] * price
	}
	e.come(prices)
	for i := range e.nodes {
		bound -= e.node(&e.nodes[i], prices, slope)
	}
	return bound, slope
}

// come finds out what pods that come to so many devices pay at most.
func (e *earnings) come(prices []float64) {
	most := 0
	for i := range e.nodes {
		all := e.nodes[i].free
		for _, pod := range e.nodes[i].pods {
			all += pod.devices
		}
		most = max(most, all)
	}
	e.worth, e.last = slices.Grow(e.worth[:0], most+1)[:most+1], slices.Grow(e.last[:0], most+1)[:most+1]
	for n := range e.worth {
		e.worth[n], e.last[n] = 0, -1
		if n > 0 {
			e.worth[n], e.last[n] = e.worth[n-1], -1
		}
		for k, size := range e.sizes {
			if size <= n && e.worth[n-size]+prices[k] > e.worth[n] {
				e.worth[n], e.last[n] = e.worth[n-size]+prices[k], k
			}
		}
	}
}

// node is what some nodes earn, and changes the slope by the pods that come and leave.
func (e *earnings) node(l *loaded, prices, slope []float64) float64 {
	gain := 0
	for _, pod := range l.pods {
		gain += pod.devices
	}
	width := gain + 1
	size := (len(l.pods) + 1) * width
	e.costs = slices.Grow(e.costs[:0], size)[:size]
	for n := range width {
		e.costs[n] = math.Inf(1)
	}
	e.costs[0] = 0
	for i, pod := range l.pods {
		before, after := e.costs[i*width:(i+1)*width], e.costs[(i+1)*width:(i+2)*width]
		cost := e.leaves(&pod, prices)
		for n := range width {
			after[n] = min(before[n], before[max(0, n-pod.devices)]+cost)
		}
	}
	costs := e.costs[len(l.pods)*width:]
	best, freed := 0.0, -1
	for n := range width {
		if earned := e.worth[l.free+n] - costs[n]; earned > best {
			best, freed = earned, n
		}
	}
	if freed < 0 {
		return 0
	}
	count := float64(l.count)
	for n := l.free + freed; n > 0; {
		if k := e.last[n]; k >= 0 {
			slope[k] -= count
			n -= e.sizes[k]
			continue
		}
		n--
	}
	for i, n := len(l.pods)-1, freed; i >= 0; i-- {
		pod := &l.pods[i]
		if e.costs[i*width+n] == e.costs[(i+1)*width+n] {
			continue
		}
		n = max(0, n-pod.devices)
		if pod.size >= 0 {
			slope[pod.size] += count
		}
	}
	return best * count
}

// leaves is what it costs that a pod leaves.
func (e *earnings) leaves(pod *leaver, prices []float64) float64 {
	if pod.size < 0 {
		return pod.cost
	}
	return pod.cost + prices[pod.size]
}
