// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
)

// frame is the translation of a node's devices that does not depend on the question or on usage. It is cached
// with the devices.
type frame struct {
	devices        []solver.Device
	restores       bool
	poolOf, kindOf []int32
	// sizes are by device. They are computed for the first policy that needs them.
	sizes func() []size
	// columns are those of the attributes that were compared last.
	columns memo.List[columnKey, *Column]
	// groups are the counter sets with compatibility groups. Each is a relation. groupValues are the numbers of
	// group names.
	groups      []counterGroups
	groupValues map[string]int32
	// capacities are the resources of shares, which come last. capacityOf is, by shareable device, the position
	// of its first resource.
	capacities []deviceCapacity
	capacityOf map[int32]int32
}

// resourceKind is what counters or capacities of different devices must have in common to be of one kind.
type resourceKind struct {
	driver, counter string
	capacity        resourceapi.QualifiedName
}

// counterGroups is a counter set with compatibility groups.
type counterGroups struct {
	pool int32
	set  pool.CounterSetIndex
}

// noGroup is the value of devices that declare no groups. The value of a group is its number plus 1.
const noGroup = 0

// deviceCapacity is a capacity of a shareable device.
type deviceCapacity struct {
	device int32
	name   resourceapi.QualifiedName
	total  amount.Amount
}

// frameOf returns the frame of devices, made by the first call.
func frameOf(d *eligibility.Devices) *frame {
	return d.Attach(func() any { return newFrame(d) }).(*frame)
}

func newFrame(d *eligibility.Devices) *frame {
	f := &frame{sizes: sync.OnceValue(func() []size { return sizesOf(d) }), groupValues: make(map[string]int32)}
	kinds := make(map[resourceKind]int32)
	first := make([]int32, len(d.Pools))
	for p, pool := range d.Pools {
		first[p] = int32(len(f.poolOf))
		for _, counter := range pool.Counters {
			f.poolOf = append(f.poolOf, int32(p))
			f.kindOf = append(f.kindOf, number(kinds, resourceKind{driver: pool.ID.Driver, counter: counter.Name}))
		}
	}
	f.addGroups(d)
	f.devices = make([]solver.Device, len(d.List))
	for i := range d.List {
		f.addDevice(int32(i), &d.List[i], first[d.List[i].Pool])
		if d.List[i].Shareable {
			f.addCapacities(int32(i), &d.List[i], kinds)
		}
	}
	f.restores = solver.Restores(f.devices)
	return f
}

// number returns the number of a key. A new key gets the next one.
func number[K comparable](known map[K]int32, key K) int32 {
	n, found := known[key]
	if !found {
		n = int32(len(known))
		known[key] = n
	}
	return n
}

func (f *frame) addDevice(i int32, d *eligibility.Device, first int32) {
	made := &f.devices[i]
	made.Shareable, made.Pool = d.Shareable, -1
	if d.ConsumesCounters {
		made.Pool = d.Pool
	}
	for _, use := range d.Uses {
		made.Draws = append(made.Draws, solver.Draw{Resource: first + int32(use.Counter), Amount: use.Amount})
	}
	for _, use := range d.Groups {
		if g := slices.Index(f.groups, counterGroups{d.Pool, use.Set}); g >= 0 {
			made.Groups = append(made.Groups, solver.Group{Relation: int32(g), Values: f.numbers(use.Groups)})
		}
	}
}

func (f *frame) addCapacities(i int32, d *eligibility.Device, kinds map[resourceKind]int32) {
	if f.capacityOf == nil {
		f.capacityOf = make(map[int32]int32)
	}
	f.capacityOf[i] = int32(len(f.poolOf))
	for _, name := range slices.Sorted(maps.Keys(d.Object.Capacity)) {
		f.poolOf = append(f.poolOf, -1)
		f.kindOf = append(f.kindOf, number(kinds, resourceKind{driver: d.Shape.Driver, capacity: name}))
		f.capacities = append(f.capacities, deviceCapacity{i, name, quantity.Amount(d.Object.Capacity[name].Value)})
	}
}

// addGroups finds the counter sets in which some device declares compatibility groups. Other counter sets need
// no relation.
func (f *frame) addGroups(d *eligibility.Devices) {
	for p, of := range d.Pools {
		for i := range of.Devices {
			for _, use := range of.Devices[i].Groups {
				if g := (counterGroups{int32(p), use.Set}); len(use.Groups) > 0 && !slices.Contains(f.groups, g) {
					f.groups = append(f.groups, g)
				}
				for _, name := range use.Groups {
					number(f.groupValues, name)
				}
			}
		}
	}
}

func (f *frame) numbers(names []string) []int32 {
	if len(names) == 0 {
		return []int32{noGroup}
	}
	numbers := make([]int32, len(names))
	for i, name := range names {
		numbers[i] = f.groupValues[name] + 1
	}
	return numbers
}

// relations appends a relation for each counter set with groups. Its values are the groups that the devices in
// use have in common.
func (f *frame) relations(used []*pool.Usage, to []solver.Relation) []solver.Relation {
	for _, g := range f.groups {
		r := solver.Relation{Kind: solver.Match}
		if names, occupied := used[g.pool].Groups(g.set); occupied {
			r.Begun, r.Left = true, []int32{}
			if names == nil || len(names) > 0 {
				r.Left = f.numbers(names)
			}
		}
		to = append(to, r)
	}
	return to
}
