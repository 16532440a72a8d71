package solver

import (
	"slices"
	"sync"
)

// Column is what the devices have of something that relations compare. It can be part of several
// problems.
type Column struct {
	// Values are those of each device. A device without a list is never admitted.
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
	// values are those that all devices share (Match) or that some device has (Distinct).
	// They are never written to in place, except beyond their length.
	values []int32
}

func (r *Relation) begin() relationState {
	if r.Begun {
		return relationState{devices: 1, values: r.Left}
	}
	return relationState{}
}

// admits reports whether a device with the given values can join.
func (r *Relation) admits(state relationState, offered []int32) bool {
	switch {
	case offered == nil:
		return false
	case state.devices == 0:
		return true
	case len(offered) == 0:
		return false
	}
	return meet(state.values, offered) == (r.Kind == Match)
}

// join returns the state with a device that was admitted.
func (r *Relation) join(state relationState, offered []int32) relationState {
	switch {
	case r.Kind == Distinct:
		return relationState{state.devices + 1, append(state.values, offered...)}
	case state.devices == 0:
		return relationState{1, offered}
	}
	return relationState{state.devices + 1, intersect(state.values, offered)}
}

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
