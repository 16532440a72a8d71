// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"
	"sync"
)

// Column holds the values of devices that relations compare. Several problems may share it.
type Column struct {
	// Values are by device, without duplicates. A device with a nil list is never admitted.
	Values [][]int32

	once sync.Once
	// devices are by value, in ascending order.
	devices [][]int32
}

// having lists the devices that have a value.
func (c *Column) having(value int32) []int32 {
	if int(value) >= c.count() {
		return nil
	}
	return c.devices[value]
}

// count is the number of values.
func (c *Column) count() int {
	c.once.Do(c.index)
	return len(c.devices)
}

func (c *Column) index() {
	for i, values := range c.Values {
		for _, v := range values {
			for int(v) >= len(c.devices) {
				c.devices = append(c.devices, nil)
			}
			c.devices[v] = append(c.devices[v], int32(i))
		}
	}
}

// relationState is the state of a relation after the devices chosen so far.
type relationState struct {
	devices int32
	// values depend on the kind of the relation. They are never overwritten in place, but may be appended to.
	values []int32
}

func (r *Relation) begin() relationState {
	if r.Begun {
		return relationState{devices: 1, values: slices.Clip(r.Left)}
	}
	return relationState{}
}

// admits reports whether a device with these values can join. A refusal holds for the whole subtree. A device
// with a nil list cannot join.
func (r *Relation) admits(state relationState, offered []int32) bool {
	return offered != nil && r.kind().admits(r, state, offered)
}

// join returns the state after a device that was admitted.
func (r *Relation) join(state relationState, offered []int32) relationState {
	return relationState{state.devices + 1, r.kind().join(state, offered)}
}

func (r *Relation) kind() kind { return kinds[r.Kind] }

// Holds reports whether devices with these values are all admitted, one after the other.
func (r *Relation) Holds(offered [][]int32) bool {
	state := r.begin()
	for _, values := range offered {
		if !r.admits(state, values) {
			return false
		}
		state = r.join(state, values)
	}
	return true
}

// RelationKind says how the devices of a relation are related.
type RelationKind uint8

const (
	// Match requires one value that all devices have. A device with an empty list of values is only admitted
	// alone.
	Match RelationKind = iota
	// Distinct requires that no two devices have a value in common. A device with an empty list of values is
	// only admitted as the first one.
	Distinct
	// AtMost requires no more than Relation.Most different values among all devices. A device without values is
	// not admitted.
	AtMost

	// Kinds is the number of kinds.
	Kinds = iota
)

// kind implements a RelationKind. The search depends on the kind in no other way.
type kind interface {
	// admits reports whether a device with these values can join. A refusal holds for the whole subtree.
	admits(r *Relation, state relationState, offered []int32) bool
	// join returns the values of the state after a device that was admitted.
	join(state relationState, offered []int32) []int32
	// counts and spent are what nogoods need to know of a state. Two states admit the same devices from then on
	// under two conditions. spent is equal, and counts is equal for each value of the devices that can still
	// join.
	counts(state relationState, value int32) worth
	spent(state relationState) int
	// needsCommonValue reports whether all devices need a common value. It is then one of the values of a state with
	// devices. (support, cardinality, pairing)
	needsCommonValue() bool
	// needsDistinctValues reports whether no two devices may have a value in common. (assignment, cardinality)
	needsDistinctValues() bool
	// dependsOnOrder reports whether the order of devices matters, if one of them has these values. (symmetry)
	dependsOnOrder(values []int32) bool
}

// worth is what a value means for later devices. Each kind has its own interpretation.
type worth uint8

const (
	// worthless values do not matter.
	worthless worth = iota
	fresh
	taken
)

var kinds = [Kinds]kind{Match: matchKind{}, Distinct: distinctKind{}, AtMost: atMostKind{}}

// matchKind keeps the values that all devices have.
type matchKind struct{}

func (matchKind) admits(_ *Relation, state relationState, offered []int32) bool {
	return state.devices == 0 || meet(state.values, offered)
}

func (matchKind) join(state relationState, offered []int32) []int32 {
	if state.devices == 0 {
		return offered
	}
	return intersect(state.values, offered)
}

func (matchKind) counts(state relationState, value int32) worth {
	if state.devices > 0 && !slices.Contains(state.values, value) {
		return worthless
	}
	return fresh
}

func (matchKind) spent(relationState) int     { return 0 }
func (matchKind) needsCommonValue() bool      { return true }
func (matchKind) needsDistinctValues() bool   { return false }
func (matchKind) dependsOnOrder([]int32) bool { return false }

// distinctKind keeps the values of all devices.
type distinctKind struct{}

func (distinctKind) admits(_ *Relation, state relationState, offered []int32) bool {
	return state.devices == 0 || len(offered) > 0 && !meet(state.values, offered)
}

func (distinctKind) join(state relationState, offered []int32) []int32 {
	return append(state.values, offered...)
}

func (distinctKind) counts(relationState, int32) worth  { return fresh }
func (distinctKind) spent(relationState) int            { return 0 }
func (distinctKind) needsCommonValue() bool             { return false }
func (distinctKind) needsDistinctValues() bool          { return true }
func (distinctKind) dependsOnOrder(values []int32) bool { return values != nil && len(values) == 0 }

// atMostKind keeps the different values of all devices.
type atMostKind struct{}

func (atMostKind) admits(r *Relation, state relationState, offered []int32) bool {
	return len(offered) > 0 && len(state.values)+added(state.values, offered) <= r.Most
}

func (atMostKind) join(state relationState, offered []int32) []int32 {
	all := state.values
	for _, v := range offered {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

func (atMostKind) counts(state relationState, value int32) worth {
	if slices.Contains(state.values, value) {
		return taken
	}
	return fresh
}

func (atMostKind) spent(state relationState) int { return len(state.values) }
func (atMostKind) needsCommonValue() bool        { return false }
func (atMostKind) needsDistinctValues() bool     { return false }
func (atMostKind) dependsOnOrder([]int32) bool   { return false }

// added is how many values of b are not in a.
func added(a, b []int32) (n int) {
	for _, v := range b {
		if !slices.Contains(a, v) {
			n++
		}
	}
	return n
}

func meet(a, b []int32) bool {
	return slices.ContainsFunc(a, func(v int32) bool { return slices.Contains(b, v) })
}

// intersect returns the values of a that are in b. It returns a itself if that is all of them.
func intersect(a, b []int32) []int32 {
	missing := func(v int32) bool { return !slices.Contains(b, v) }
	if !slices.ContainsFunc(a, missing) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), missing)
}
