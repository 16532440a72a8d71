// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"
	"sync"
)

// Column is what the devices have of something that relations compare. It can be part of several
// problems.
type Column struct {
	// Values are those of each device, each value once. A device without a list is never admitted.
	Values [][]int32

	once sync.Once
	// devices are those that have each value, in ascending order.
	devices [][]int32
}

// having lists the devices that have a value.
func (c *Column) having(value int32) []int32 {
	if int(value) >= c.count() {
		return nil
	}
	return c.devices[value]
}

// count is how many values there are.
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

// relationState is what a relation knows of the devices chosen so far.
type relationState struct {
	devices int32
	// values are what the kind of the relation keeps of theirs. They are never written to in place, except beyond their
	// length.
	values []int32
}

func (r *Relation) begin() relationState {
	if r.Begun {
		return relationState{devices: 1, values: slices.Clip(r.Left)}
	}
	return relationState{}
}

// admits reports whether a device with the given values can join. Once it cannot, it never can. A device without a list
// cannot.
func (r *Relation) admits(state relationState, offered []int32) bool {
	return offered != nil && r.kind().admits(r, state, offered)
}

// join returns the state with a device that was admitted.
func (r *Relation) join(state relationState, offered []int32) relationState {
	return relationState{state.devices + 1, r.kind().join(state, offered)}
}

func (r *Relation) kind() kind { return kinds[r.Kind] }

// Holds reports whether devices with these values, one after the other, are all admitted.
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
	// Match wants one value that all devices have. A device that has no values, but a list of them that is not nil, is
	// only admitted by itself.
	Match RelationKind = iota
	// Distinct wants values that no two devices have in common. A device that has no values, but a list of them that is
	// not nil, is only admitted as the first one.
	Distinct
	// AtMost wants no more than Relation.Most different values, of all devices together. A device without values is not
	// admitted.
	AtMost

	// Kinds is how many there are.
	Kinds = iota
)

// kind is all that the search asks of a kind of relation. Its parts depend on the kind in no other way.
type kind interface {
	// admits reports whether a device with a list of values can join. It is for good if it cannot.
	admits(r *Relation, state relationState, offered []int32) bool
	// join returns the values of the state with a device that was admitted.
	join(state relationState, offered []int32) []int32
	// counts tells what counts of a value for what is admitted later, with spent. States that spent the same and in which
	// each value of the devices that can still join counts the same admit the same devices from then on. (nogoods)
	counts(state relationState, value int32) worth
	spent(state relationState) int
	// common reports whether the devices have a value in common, which is one of those of a state that has devices.
	// (support, cardinality, pairing)
	common() bool
	// apart reports whether no two devices have a value in common. (assignment, cardinality)
	apart() bool
	// ordered reports whether it depends on the order whether devices are admitted, if some have the given values. (symmetry)
	ordered(values []int32) bool
}

// worth is what a value counts for. What it means is up to the kind.
type worth uint8

const (
	// worthless values do not count, whichever they are.
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

func (matchKind) spent(relationState) int { return 0 }
func (matchKind) common() bool            { return true }
func (matchKind) apart() bool             { return false }
func (matchKind) ordered([]int32) bool    { return false }

// distinctKind keeps the values that some device has.
type distinctKind struct{}

func (distinctKind) admits(_ *Relation, state relationState, offered []int32) bool {
	return state.devices == 0 || len(offered) > 0 && !meet(state.values, offered)
}

func (distinctKind) join(state relationState, offered []int32) []int32 {
	return append(state.values, offered...)
}

func (distinctKind) counts(relationState, int32) worth { return fresh }
func (distinctKind) spent(relationState) int           { return 0 }
func (distinctKind) common() bool                      { return false }
func (distinctKind) apart() bool                       { return true }
func (distinctKind) ordered(values []int32) bool       { return values != nil && len(values) == 0 }

// atMostKind keeps the different values that devices have.
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
func (atMostKind) common() bool                  { return false }
func (atMostKind) apart() bool                   { return false }
func (atMostKind) ordered([]int32) bool          { return false }

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

// intersect returns the values of a that are in b, a itself if that is all.
func intersect(a, b []int32) []int32 {
	missing := func(v int32) bool { return !slices.Contains(b, v) }
	if !slices.ContainsFunc(a, missing) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), missing)
}
