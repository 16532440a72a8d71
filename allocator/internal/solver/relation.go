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
