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
	// sizes are numbers of devices that pods ask for: first of those that move, then of the wanted ones.
	sizes  []int
	moving int   // how many sizes are of those that move
	wanted []int // by size: how many wanted pods
	nodes  []loaded
}

// loaded is what some nodes that are alike have free, and which pods may leave them. Wanted pods may come to some of them.
type loaded struct {
	count, home int
	free        int
	pods        []leaver
}

// leaver is a pod that may leave a node.
type leaver struct {
	devices int // that are free without it
	size    int // position in relaxed.sizes; -1 for a pod that vanishes
	cost    float64
}

// manyPrices is how many prices are tried.
const manyPrices = 300

// bound looks for prices with which the bound is highest, from some prices on.
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

// earnings finds what nodes earn at some prices.
type earnings struct {
	*relaxed
	home, away incomes
	costs      []float64 // by pods, and devices that are free without them: what that costs at least
}

// incomes are what pods pay that come, at most, by devices.
type incomes struct {
	worth []float64
	last  []int // the size of one of them, -1 for none
}

// at is the bound at some prices, and by size how many more pods want a place than get one.
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

// read finds out what pods of some sizes pay.
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

// leaving is how many devices are free without the pods of a node.
func (l *loaded) leaving() (devices int) {
	for _, pod := range l.pods {
		devices += pod.devices
	}
	return devices
}

// leave finds out what it costs that pods leave a node.
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

// earned is what as many nodes earn, and changes the slope by the pods that come and leave.
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
