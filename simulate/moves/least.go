// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dray-project/dray/simulate"
)

// least returns a lower bound of the cost of any plan, infinite if there is none, and the price of a place by kind.
func (f *finder) least(ctx context.Context, domains []domain) (bound float64, prices []float64, err error) {
	kinds, err := f.kindsOf(ctx)
	if err != nil {
		return 0, nil, err
	}
	if err := f.readMonotone(ctx, kinds); err != nil {
		return 0, nil, err
	}
	for i := range f.shapes {
		one, err := f.leastFor(ctx, i, kinds, domains)
		if err != nil {
			return 0, nil, err
		}
		bound = max(bound, one)
	}
	prices = make([]float64, len(f.kinds))
	for _, q := range f.wantedRequests(kinds) {
		r, err := f.relax(ctx, &q)
		if err != nil {
			return 0, nil, err
		}
		if r == nil {
			continue
		}
		total, of := r.boundIn(domains)
		bound = max(bound, total*(1-slack*slack)) // additions are not exact
		for kind, size := range r.size {
			if size >= 0 {
				prices[kind] = max(prices[kind], of[size])
			}
		}
	}
	all := 0.0
	for i := range f.pods {
		all += f.pods[i].cost
	}
	if bound > all+slack {
		return math.Inf(1), prices, nil
	}
	return f.roundUp(bound), prices, nil
}

// slack is the tolerance for sums of floating-point numbers.
const slack = 1e-6

// roundUp rounds a lower bound up if all costs are whole numbers.
func (f *finder) roundUp(bound float64) float64 {
	for i := range f.pods {
		if f.pods[i].cost != math.Trunc(f.pods[i].cost) {
			return bound
		}
	}
	return math.Ceil(bound - slack)
}

// leastFor returns a lower bound of the cost of placing the wanted pods of a shape in one of the domains, if evicted pods need no new node.
func (f *finder) leastFor(ctx context.Context, number int, kinds []kind, domains []domain) (float64, error) {
	shape := f.shapes[number]
	list, _, err := f.state.Victims(ctx, shape, f.on, f.costOf, len(f.nodes))
	if err != nil {
		return 0, err
	}
	on := make(map[simulate.Node]*simulate.VictimSet, len(list))
	for i := range list {
		on[list[i].Node] = &list[i]
	}
	rooms := make(map[simulate.Node]nodeRoom, len(f.nodes))
	for _, node := range f.nodes {
		pods, sure, err := f.takesAtMost(ctx, shape, node, on[node] == nil)
		if err != nil || !sure {
			return 0, err
		}
		if pods > 0 && !f.monotone[number] {
			pods = len(shape.Pods)
		}
		room := nodeRoom{pods: pods}
		if set := on[node]; set != nil && set.Least {
			room.cost = set.Cost
		}
		rooms[node] = room
	}
	var like []host
	if k := f.kindOf(kinds, shape); k != nil {
		if like, err = f.hosts(ctx, shape, k); err != nil {
			return 0, err
		}
	}
	least := math.Inf(1)
	for _, d := range domains {
		cost := d.least(len(shape.Pods), rooms)
		if len(like) > 0 {
			cost = max(cost, f.leastGain(d, len(shape.Pods), rooms, like))
		}
		least = min(least, cost)
	}
	return least, nil
}

// nodeRoom has upper and lower bounds for a node: how many wanted pods it takes at most, and the least cost of making room for one.
type nodeRoom struct {
	pods int
	cost float64
}

// least returns the cost of the cheapest nodes of the domain that take so many pods together.
func (d domain) least(wanted int, rooms map[simulate.Node]nodeRoom) float64 {
	costs := slices.Repeat([]float64{math.Inf(1)}, wanted+1) // by how many of the wanted pods have a place
	costs[0] = 0
	for _, node := range d {
		if room := rooms[node]; room.pods > 0 {
			for n := wanted; n > 0; n-- {
				costs[n] = min(costs[n], costs[max(0, n-room.pods)]+room.cost)
			}
		}
	}
	return costs[wanted]
}

// takesAtMost returns how many pods of a wanted shape get devices on a node without its movable pods. With strict, it also checks CPU and
// other resources for one pod. sure is false if there may be more.
func (f *finder) takesAtMost(ctx context.Context, shape *simulate.Shape, node simulate.Node, strict bool) (pods int, sure bool, err error) {
	f.scratch.Fork()
	defer f.scratch.Revert()
	if err := f.evictAll(node); err != nil {
		return 0, false, err
	}
	pods, sure, err = take(ctx, f.scratch.State(), shape, node, len(shape.Pods))
	if pods == 0 || !sure || err != nil || !strict {
		return pods, sure, err
	}
	result, err := f.scratch.PutShape(ctx, shape, node)
	return result.Placed * pods, result.Undecided == 0, err
}

// evictAll evicts the movable pods of a node.
func (f *finder) evictAll(node simulate.Node) error {
	for _, i := range f.movable[node] {
		if err := f.scratch.Evict(f.pods[i].Pod); err != nil {
			return err
		}
	}
	return nil
}

// take returns how many pods of a shape get devices on a node, at most a given number. sure is false if there may be more.
func take(ctx context.Context, state *simulate.State, shape *simulate.Shape, node simulate.Node, most int) (pods int, sure bool, err error) {
	room, err := state.Room(node)
	if err != nil {
		return 0, false, err
	}
	for ; pods < most; pods++ {
		next, fit, err := room.Take(ctx, shape)
		switch {
		case errors.Is(err, simulate.ErrNotAlone) || fit.Undecided > 0:
			return pods, false, nil
		case err != nil:
			return pods, false, err
		case fit.Pods == 0:
			return pods, true, nil
		}
		room = next
	}
	return pods, true, nil
}

// request is a request of wanted pods for a number of devices, with all kinds that have the same request.
type request struct {
	ask    string
	number map[int]int // by kind: devices of a pod
	unit   *kind       // the simple kind with the smallest number
}

// wantedRequests lists the different requests of the wanted pods.
func (f *finder) wantedRequests(kinds []kind) []request {
	var list []request
	for _, wanted := range kinds {
		if !slices.Contains(f.wantedKinds, wanted.number) {
			continue
		}
		for _, ask := range slices.Sorted(maps.Keys(wanted.asks)) {
			if slices.ContainsFunc(list, func(r request) bool { return r.ask == ask }) {
				continue
			}
			r := request{ask: ask, number: make(map[int]int)}
			for i := range kinds {
				k := &kinds[i]
				if n, found := k.asks[ask]; found {
					r.number[k.number] = int(n)
					if k.simple && (r.unit == nil || k.units < r.unit.units) {
						r.unit = k
					}
				}
			}
			if r.unit != nil {
				list = append(list, r)
			}
		}
	}
	return list
}

// numbers is a relaxed question, with the kinds and nodes that its numbers stand for.
type numbers struct {
	relaxed
	size  []int                 // by kind: the position in sizes of those that move, or -1
	class map[simulate.Node]int // positions in nodes
}

// relax makes the relaxed question for a request. It returns nil if devices of a node cannot be counted, such as partitions.
func (f *finder) relax(ctx context.Context, q *request) (*numbers, error) {
	r := &numbers{size: slices.Repeat([]int{-1}, len(f.kinds)), class: make(map[simulate.Node]int)}
	r.sizes = slices.Compact(slices.Sorted(maps.Values(q.number)))
	r.moving = len(r.sizes)
	for kind, n := range q.number {
		r.size[kind] = slices.Index(r.sizes, n)
	}
	r.sizes = append(r.sizes, r.sizes...)
	r.wanted = make([]int, len(r.sizes))
	for _, kind := range f.wantedKinds {
		if size := r.size[kind]; size >= 0 {
			r.wanted[r.moving+size]++
		}
	}
	l := &loader{finder: f, request: q, apart: make(map[simulate.RoomDevices]bool)}
	at := make(map[string]int)
	for _, node := range f.nodes {
		next, plain, err := l.load(ctx, node)
		if err != nil || !plain {
			return nil, err
		}
		for i := range next.pods {
			next.pods[i].size = r.size[f.pods[f.movable[node][i]].kind]
		}
		next.pods = slices.DeleteFunc(next.pods, func(pod leaver) bool { return pod.devices == 0 })
		slices.SortFunc(next.pods, func(a, b leaver) int {
			return cmp.Or(cmp.Compare(a.devices, b.devices), cmp.Compare(a.size, b.size), cmp.Compare(a.cost, b.cost))
		})
		key := fmt.Sprint(next.free, next.pods)
		i, known := at[key]
		if !known {
			i, at[key] = len(r.nodes), len(r.nodes)
			r.nodes = append(r.nodes, next)
		}
		r.nodes[i].count++
		r.class[node] = i
	}
	return r, nil
}

// priced is the largest number of domains with a bound by prices for each. If there are more, one bound for all nodes is used.
const priced = 64

// boundIn returns the least bound of all domains, with its prices.
func (r *numbers) boundIn(domains []domain) (least float64, prices []float64) {
	least = math.Inf(1)
	start, tries := make([]float64, len(r.sizes)), manyPrices
	if len(domains) > priced {
		domains = []domain{slices.Collect(maps.Keys(r.class))}
	}
	prices = start
	for _, d := range domains {
		for i := range r.nodes {
			r.nodes[i].home = 0
		}
		for _, node := range d {
			r.nodes[r.class[node]].home++
		}
		bound, of := r.bound(start, tries)
		if start, tries = of, manyPrices/4; bound < least {
			least, prices = bound, of
		}
	}
	return least, prices
}

// loader counts the devices of nodes for the pods of a request.
type loader struct {
	*finder
	*request
	// apart is by the devices of a node without its movable pods: whether no device is a part of another.
	apart map[simulate.RoomDevices]bool
}

// load counts the free devices of a node, and those that each of its pods frees. plain is false if these numbers cannot be added up.
func (l *loader) load(ctx context.Context, node simulate.Node) (n loaded, plain bool, err error) {
	unit := l.kinds[l.unit.number]
	before, sum := freeDevices(l.state, node), 0
	for _, i := range l.movable[node] {
		free, err := l.without(node, i)
		if err != nil {
			return n, false, err
		}
		n.pods = append(n.pods, leaver{devices: free - before, cost: l.pods[i].cost})
		sum += free - before
	}
	l.scratch.Fork()
	defer l.scratch.Revert()
	if err := l.evictAll(node); err != nil {
		return n, false, err
	}
	empty := l.scratch.State()
	all := freeDevices(empty, node)
	most, sure, err := take(ctx, empty, unit, node, all+1)
	if err != nil || !sure {
		return n, false, err
	}
	if most == 0 {
		n.pods = nil
		none, err := l.none(ctx, empty, node)
		return n, none, err
	}
	if plain, err = l.isApart(ctx, node, most); err != nil || !plain {
		return n, false, err
	}
	if all != before+sum {
		n.pods, n.free = nil, most*int(l.unit.units)+int(l.unit.units)-1 // as if all pods had left, for nothing
		return n, true, nil
	}
	units, sure, err := take(ctx, l.state, unit, node, all+1)
	n.free = units*int(l.unit.units) + int(l.unit.units) - 1
	return n, sure, err
}

// none reports whether no pod with the request gets devices on a node without movable pods.
func (l *loader) none(ctx context.Context, empty *simulate.State, node simulate.Node) (bool, error) {
	for _, kind := range slices.Sorted(maps.Keys(l.number)) {
		if pods, sure, err := take(ctx, empty, l.kinds[kind], node, 1); pods > 0 || !sure || err != nil {
			return false, err
		}
	}
	return true, nil
}

// without returns how many devices of a node are free without one of its pods.
func (l *loader) without(node simulate.Node, pod int) (int, error) {
	l.scratch.Fork()
	defer l.scratch.Revert()
	if err := l.scratch.Evict(l.pods[pod].Pod); err != nil {
		return 0, err
	}
	return freeDevices(l.scratch.State(), node), nil
}

// isApart reports whether the pods of the smallest kind take devices of which no other is a part. most is how many of them fit.
func (l *loader) isApart(ctx context.Context, node simulate.Node, most int) (bool, error) {
	room, err := l.scratch.State().Room(node)
	if err != nil {
		return false, err
	}
	if known, found := l.apart[room.Devices()]; found {
		return known, nil
	}
	free := freeDevices(l.scratch.State(), node)
	apart := true
	for range most {
		result, err := l.put(ctx, l.scratch, l.unit.pods[0], node)
		if err != nil {
			return false, err
		}
		now := freeDevices(l.scratch.State(), node)
		apart = apart && result.All() && free-now == int(l.unit.units)
		free = now
	}
	l.apart[room.Devices()] = apart
	return apart, nil
}

// freeDevices counts the devices of a node of which nothing is in use.
func freeDevices(state *simulate.State, node simulate.Node) (n int) {
	for _, use := range state.Devices(node) {
		if use.Free {
			n++
		}
	}
	return n
}
