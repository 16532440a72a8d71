// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/simulate"
)

// bin is a node to put pods into: a new one of a type, or one of some real nodes that are alike. What fits is a graph: from
// what the devices are, one more pod of a kind leads to what they are then. Pods come in the order of kinds. Resources
// besides devices are sums.
type bin struct {
	// template is that of new nodes, nodes are the real ones.
	template *simulate.Template
	nodes    []simulate.Node
	price    float64
	// limits are the positions of the limits that count the bin.
	limits []int
	// kinds are the positions of those that fit into the empty bin as far as devices say, in order; shapes are theirs.
	kinds  []int
	shapes []*simulate.Shape
	// needs are the resources of one pod, by position in kinds, free is what there is. Resources without a limit are left out.
	needs [][]int64
	free  []int64
	// rooms are what devices can be, the first is the empty bin. number finds them again. next is what each is after
	// one more pod, by position in kinds.
	rooms  []simulate.Room
	number map[simulate.RoomDevices]int32
	next   [][]int32
	// doubt is set if a search for devices was given up or failed. The pod then counts as one that does not fit, but a
	// bound may not rely on that.
	doubt bool
	// undecided are kinds for which that is so in the empty bin, apart those whose pods depend on other nodes.
	undecided, apart []int
	// weights are what resources cost in the last bound, see pattern.go.
	weights []float64
}

// What next has instead of a position.
const (
	unknown int32 = -1 - iota
	unfit
)

// newBin asks for each kind whether one pod of it fits into a room.
func newBin(ctx context.Context, kinds []*simulate.Shape, room simulate.Room) (*bin, error) {
	b := &bin{rooms: []simulate.Room{room}, number: map[simulate.RoomDevices]int32{room.Devices(): 0}}
	free := room.Free()
	var lists []corev1.ResourceList
	for k, shape := range kinds {
		_, fit, err := room.Take(ctx, shape)
		switch {
		case errors.Is(err, simulate.ErrNotAlone):
			b.apart = append(b.apart, k)
			continue
		case err != nil:
			return nil, err
		case fit.Undecided > 0:
			b.undecided, b.doubt = append(b.undecided, k), true
			continue
		case fit.Pods == 0:
			continue
		}
		needs, err := room.Needs(shape)
		if err != nil {
			return nil, err
		}
		if free == nil || contains(free, needs) {
			b.kinds, b.shapes, lists = append(b.kinds, k), append(b.shapes, shape), append(lists, needs)
		}
	}
	b.next = [][]int32{unasked(len(b.kinds))}
	b.readResources(free, lists)
	return b, nil
}

func unasked(kinds int) []int32 { return slices.Repeat([]int32{unknown}, kinds) }

// contains reports whether there is enough for one pod. The number of pods has no limit if it is not listed.
func contains(free, needs corev1.ResourceList) bool {
	for name, need := range needs {
		left, listed := free[name]
		if !listed && name == corev1.ResourcePods || need.IsZero() {
			continue
		}
		if !listed || left.Cmp(need) < 0 {
			return false
		}
	}
	return true
}

// readResources keeps the resources that limit how many pods there are.
func (b *bin) readResources(free corev1.ResourceList, lists []corev1.ResourceList) {
	b.needs = make([][]int64, len(lists))
	for _, name := range slices.Sorted(maps.Keys(free)) {
		if !slices.ContainsFunc(lists, func(needs corev1.ResourceList) bool { _, found := needs[name]; return found }) {
			continue
		}
		b.free = append(b.free, amountOf(name, free[name]))
		for i, needs := range lists {
			b.needs[i] = append(b.needs[i], amountOf(name, needs[name]))
		}
	}
	b.weights = make([]float64, len(b.free))
}

// amountOf is an amount in the unit in which nodes are filled.
func amountOf(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// binKey is equal for bins into which the same fits.
type binKey struct {
	devices simulate.RoomDevices
	rest    string
}

func (b *bin) key() binKey {
	var key []byte
	for _, numbers := range [][]int{b.kinds, b.undecided} {
		key = binary.AppendUvarint(key, uint64(len(numbers)))
		for _, k := range numbers {
			key = binary.AppendUvarint(key, uint64(k))
		}
	}
	for _, amounts := range append(b.needs, b.free) {
		key = binary.AppendUvarint(key, uint64(len(amounts)))
		for _, amount := range amounts {
			key = binary.AppendVarint(key, amount)
		}
	}
	return binKey{b.rooms[0].Devices(), string(key)}
}

// after is what the devices are after one more pod of a kind, by position in kinds.
func (b *bin) after(ctx context.Context, state int32, kind int) (int32, error) {
	if known := b.next[state][kind]; known != unknown {
		return known, nil
	}
	room, fit, err := b.rooms[state].Take(ctx, b.shapes[kind])
	if err != nil {
		return unfit, err
	}
	found := unfit
	switch {
	case fit.Undecided > 0:
		b.doubt = true
	case fit.Pods > 0:
		at, known := b.number[room.Devices()]
		if !known {
			at = int32(len(b.rooms))
			b.number[room.Devices()] = at
			b.rooms, b.next = append(b.rooms, room), append(b.next, unasked(len(b.kinds)))
		}
		found = at
	}
	b.next[state][kind] = found
	return found, nil
}

// holds reports whether so many pods of each kind fit, by position among all kinds.
func (b *bin) holds(ctx context.Context, counts []int) (bool, error) {
	state := int32(0)
	used := make([]int64, len(b.free))
	total := 0
	for i, k := range b.kinds {
		total += counts[k]
		for range counts[k] {
			next, err := b.after(ctx, state, i)
			if next < 0 || err != nil {
				return false, err
			}
			state = next
		}
		for r, need := range b.needs[i] {
			if used[r] += need * int64(counts[k]); used[r] > b.free[r] {
				return false, nil
			}
		}
	}
	all := 0
	for _, count := range counts {
		all += count
	}
	return all == total, nil
}

// available reports whether there may be one more bin, given what is left of the limits.
func (b *bin) available(caps []int) bool {
	return !slices.ContainsFunc(b.limits, func(i int) bool { return caps[i] <= 0 })
}

// most is how many pods of a kind, by position in kinds, there is enough of resources for, if so many want to come.
func (b *bin) most(kind, wanted int, used []int64) int {
	for r, need := range b.needs[kind] {
		if need > 0 {
			wanted = min(wanted, max(0, int((b.free[r]-used[r])/need)))
		}
	}
	return wanted
}

// withoutDevices is what pods are worth at most if devices are never in the way.
func (b *bin) withoutDevices(values []float64, demand []int) (worth float64) {
	none := make([]int64, len(b.free))
	for i, k := range b.kinds {
		worth += max(0, values[k]) * float64(b.most(i, demand[k], none))
	}
	for _, k := range b.undecided {
		if values[k] > 0 {
			worth += values[k] * float64(demand[k])
		}
	}
	if math.IsNaN(worth) {
		return math.Inf(1)
	}
	return worth
}
