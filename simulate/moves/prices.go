// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"math"
	"slices"
)

// relaxed is a relaxation of Find's question for one request. A node is a number of devices, and a moved pod fits on any node with enough free devices.
// The order of moves does not matter, and pods of other kinds need no new node. No plan costs less than the optimum of the relaxation.
//
// Its bound is that of a Lagrangian relaxation. Each size of pod has a price for a place. Then each node is a problem of its own: which pods leave and which come, so that
// its profit is largest. Incoming pods pay the price; a pod that leaves costs its move and the price of its new place. What the wanted pods pay, minus the profits of
// all nodes, is a lower bound for any prices.
type relaxed struct {
	// sizes are numbers of devices that pods ask for: first of those that move, then of the wanted ones.
	sizes  []int
	moving int   // how many sizes are of those that move
	wanted []int // by size: how many wanted pods
	nodes  []loaded
}

// loaded describes equal nodes: free devices and movable pods. count is the number of nodes, home is how many of them may take wanted pods.
type loaded struct {
	count, home int
	free        int
	pods        []leaver
}

// leaver is a pod that may leave a node.
type leaver struct {
	devices int // number of devices that it frees
	size    int // index in relaxed.sizes; -1 for a pod that needs no new node
	cost    float64
}

// manyPrices is the number of iterations of the subgradient method.
const manyPrices = 300

// bound searches for the prices with the highest bound by the subgradient method, from given prices on.
func (r *relaxed) bound(prices []float64, tries int) (best float64, _ []float64) {
	now := slices.Clone(prices)
	e := &earnings{relaxed: r}
	ahead, failed := 1.0, 0
	for range tries {
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

// earnings computes the profits of nodes at given prices.
type earnings struct {
	*relaxed
	home, away incomes
	costs      []float64 // by the first pods of a node and the devices that they free: minimum cost
}

// incomes are the largest payments of incoming pods, by the number of free devices.
type incomes struct {
	worth []float64
	last  []int // index of the size of one of these pods, -1 for none
}

// at returns the bound at given prices and its subgradient: by size, how many more pods need a place than get one.
func (e *earnings) at(prices []float64) (bound float64, slope []float64) {
	slope = make([]float64, len(prices))
	for k, price := range prices {
		slope[k] = float64(e.wanted[k])
		bound += slope[k] * price
	}
	most := 0
	for i := range e.nodes {
		most = max(most, e.nodes[i].free+e.nodes[i].leaving())
	}
	e.home.read(most, e.sizes, prices)
	e.away.read(most, e.sizes[:e.moving], prices)
	for i := range e.nodes {
		l := &e.nodes[i]
		e.leave(l, prices)
		bound -= e.earned(l, &e.home, l.home, slope) + e.earned(l, &e.away, l.count-l.home, slope)
	}
	return bound, slope
}

// read computes the payments of pods of given sizes.
func (c *incomes) read(most int, sizes []int, prices []float64) {
	c.worth, c.last = slices.Grow(c.worth[:0], most+1)[:most+1], slices.Grow(c.last[:0], most+1)[:most+1]
	for n := range c.worth {
		c.worth[n], c.last[n] = 0, -1
		if n > 0 {
			c.worth[n] = c.worth[n-1]
		}
		for k, size := range sizes {
			if size <= n && c.worth[n-size]+prices[k] > c.worth[n] {
				c.worth[n], c.last[n] = c.worth[n-size]+prices[k], k
			}
		}
	}
}

// leaving returns how many devices the pods of a node free together.
func (l *loaded) leaving() (devices int) {
	for _, pod := range l.pods {
		devices += pod.devices
	}
	return devices
}

// leave computes the minimum cost of freeing each number of devices of a node.
func (e *earnings) leave(l *loaded, prices []float64) {
	width := l.leaving() + 1
	size := (len(l.pods) + 1) * width
	e.costs = slices.Grow(e.costs[:0], size)[:size]
	for n := range width {
		e.costs[n] = math.Inf(1)
	}
	e.costs[0] = 0
	for i, pod := range l.pods {
		before, after := e.costs[i*width:(i+1)*width], e.costs[(i+1)*width:(i+2)*width]
		cost := pod.cost
		if pod.size >= 0 {
			cost += prices[pod.size]
		}
		for n := range width {
			after[n] = min(before[n], before[max(0, n-pod.devices)]+cost)
		}
	}
}

// earned returns the profit of count equal nodes, and updates the subgradient by the pods that come and leave.
func (e *earnings) earned(l *loaded, c *incomes, count int, slope []float64) float64 {
	width := l.leaving() + 1
	costs := e.costs[len(l.pods)*width:]
	best, freed := 0.0, -1
	for n := range width {
		if earned := c.worth[l.free+n] - costs[n]; count > 0 && earned > best {
			best, freed = earned, n
		}
	}
	if freed < 0 {
		return 0
	}
	for n := l.free + freed; n > 0; {
		if k := c.last[n]; k >= 0 {
			slope[k] -= float64(count)
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
			slope[pod.size] += float64(count)
		}
	}
	return best * float64(count)
}
