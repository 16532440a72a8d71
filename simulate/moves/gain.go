// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/dray-project/dray/simulate"
)

// host is a node on which a pod like the wanted ones runs, and what it costs to move that pod.
type host struct {
	node simulate.Node
	cost float64
}

// hosts lists the nodes with movable pods of a kind. It is empty if a node may take two of them: then no bound follows from that.
func (f *finder) hosts(ctx context.Context, shape *simulate.Shape, k *kind) ([]host, error) {
	var list []host
	seen := make(map[simulate.Node]bool)
	for i := range f.pods { // the cheapest first
		if pod := &f.pods[i]; pod.kind == k.number && !seen[pod.from] {
			seen[pod.from] = true
			list = append(list, host{pod.from, pod.cost})
		}
	}
	if len(list) == 0 || k.none {
		return nil, nil
	}
	known := make(map[simulate.RoomDevices]bool)
	for _, node := range f.nodes {
		if one, err := f.takesOne(ctx, shape, k, node, known); err != nil || !one {
			return nil, err
		}
	}
	return list, nil
}

// takesOne reports whether a node never has two pods of a kind, whatever else leaves it: it has too few devices for them.
func (f *finder) takesOne(ctx context.Context, shape *simulate.Shape, k *kind, node simulate.Node, known map[simulate.RoomDevices]bool) (bool, error) {
	f.scratch.Fork()
	defer f.scratch.Revert()
	if err := f.evictAll(node); err != nil {
		return false, err
	}
	room, err := f.scratch.State().Room(node)
	if err != nil {
		return false, err
	}
	if known[room.Devices()] {
		return true, nil
	}
	pods, sure, err := take(ctx, f.scratch.State(), shape, node, 2)
	if pods == 0 || !sure || err != nil {
		return sure, err
	}
	free := freeDevices(f.scratch.State(), node)
	if pods > 1 || int64(free) >= 2*k.least && !k.all {
		return false, nil
	}
	result, err := f.scratch.PutShape(ctx, shape, node)
	if err != nil || result.Undecided > 0 {
		return false, err
	}
	if !result.All() {
		return true, nil // there is no CPU or the like for a single one
	}
	one := int64(free-freeDevices(f.scratch.State(), node)) >= k.least // not so for devices that pods share
	if one {
		known[room.Devices()] = true
	}
	return one, nil
}

// leastGain is what it costs at least that so many pods come to a domain, if a node has one of their kind at most. In the end, so many nodes have a pod of the kind
// that had none before. Other pods leave room there. A wanted pod that comes to a host has the one there move, and another node gains one for that.
func (f *finder) leastGain(d domain, wanted int, rooms map[simulate.Node]nodeRoom, hosts []host) float64 {
	moving := make(map[simulate.Node]float64, len(hosts))
	for _, h := range hosts {
		moving[h.node] = h.cost
	}
	in := make(map[simulate.Node]bool, len(d))
	var leave []float64 // of hosts in the domain
	for _, node := range d {
		in[node] = true
		if cost, isHost := moving[node]; isHost {
			leave = append(leave, cost)
		}
	}
	type gain struct {
		cost float64
		in   bool
	}
	var gains []gain
	for _, node := range f.nodes {
		if _, isHost := moving[node]; !isHost && rooms[node].pods > 0 {
			gains = append(gains, gain{rooms[node].cost, in[node]})
		}
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return cmp.Compare(a.cost, b.cost) })
	slices.Sort(leave)
	least := math.Inf(1)
	cost := 0.0 // of the hosts that pods leave
	for n := 0; n <= min(wanted, len(leave)); n++ {
		if n > 0 {
			cost += leave[n-1]
		}
		inside, anywhere, total := wanted-n, n, cost
		for _, g := range gains {
			switch {
			case g.in && inside > 0:
				inside--
			case anywhere > 0:
				anywhere--
			default:
				continue
			}
			total += g.cost
		}
		if inside+anywhere == 0 {
			least = min(least, total)
		}
	}
	return least
}
