package allocator

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// distinctAttribute wants values that differ from device to device. With lists,
// no two devices may have a value in common (KEP-5491).
type distinctAttribute struct {
	name  resourceapi.FullyQualifiedName
	lists bool
}

func (d distinctAttribute) attribute() resourceapi.FullyQualifiedName { return d.name }

func (d distinctAttribute) String() string { return "distinctAttribute " + string(d.name) }

func (d distinctAttribute) admit(state constraintState, value pools.Attribute) (constraintState, bool) {
	offered := d.compared(value)
	// Without lists, a value of a type unknown then is only good for the first device.
	if len(offered) == 0 && (d.lists || state.devices > 0) {
		return state, false
	}
	for _, v := range offered {
		if slices.Contains(state.values, v) {
			return state, false
		}
	}
	return constraintState{devices: state.devices + 1, values: append(state.values, offered...)}, true
}

func (d distinctAttribute) compared(value pools.Attribute) []pools.Value {
	if d.lists {
		return value.Set
	}
	return scalar(value)
}
