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

// bin is a node to pack pods into: a new one of a type, or one of several equivalent real nodes. What fits is a
// graph: its vertices are the states of the devices, and an edge adds a pod of a kind. Pods are added in the
// order of kinds. Other resources are sums.
type bin struct {
	// template is the type of new nodes. nodes are the real nodes; one of the two is set.
	template *simulate.Template
	nodes    []simulate.Node
	price    float64
	// limits are the indices in problem.caps of the limits that the bin counts towards.
	limits []int
	// kinds are the indices in problem.kinds of the pods that fit into the empty bin, ascending. shapes are
	// their shapes.
	kinds  []int
	shapes []*simulate.Shape
	// needs are the requests of one pod, by position in kinds and by resource. free is what the empty bin has.
	// Resources without a limit are left out.
	needs [][]int64
	free  []int64
	// rooms are the vertices, the first is the empty bin. number finds a vertex by its devices. next has the
	// edges of each vertex, by position in kinds: the vertex after one more pod, unknown or unfit.
	rooms  []simulate.Room
	number map[simulate.RoomDevices]int32
	next   [][]int32
	// doubt is set if a search for devices failed or ran out of budget. The pod then counts as unfit, but a
	// lower bound must not rely on that.
	doubt bool
	// undecided are the kinds for which that happened in the empty bin. apart are the kinds whose pods depend
	// on other nodes.
	undecided, apart []int
	// weights are the best weights of resources so far, see knapsack.
	weights []float64
}

// Special values in bin.next.
const (
	unknown int32 = -1 - iota
	unfit
)

// newBin makes a bin of a room. It asks for each kind whether one pod fits.
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

// contains reports whether there is enough for one pod. If the number of pods is not listed, it has no limit.
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

// readResources keeps the resources that limit the number of pods.
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

// amountOf converts a quantity to millicores of CPU, or to units of other resources.
func amountOf(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// binKey is equal for bins into which the same pods fit.
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

// after returns the vertex after one more pod of a kind, which is given by its position in kinds. It is
// negative if none fits.
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

// holds reports whether pods fit together. Counts are by kind of the problem.
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

// available reports whether the remaining limits allow one more bin.
func (b *bin) available(caps []int) bool {
	return !slices.ContainsFunc(b.limits, func(i int) bool { return caps[i] <= 0 })
}

// most returns how many pods of a kind the resources allow, at most wanted. The kind is given by its position
// in kinds.
func (b *bin) most(kind, wanted int, used []int64) int {
	for r, need := range b.needs[kind] {
		if need > 0 {
			wanted = min(wanted, max(0, int((b.free[r]-used[r])/need)))
		}
	}
	return wanted
}

// withoutDevices is an upper bound of the value of a pattern that ignores devices.
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
