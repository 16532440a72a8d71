package allocator

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// matchAttribute wants one value that all devices have. With lists, that is a
// non-empty running intersection (KEP-5491); a scalar is a list of one.
type matchAttribute struct {
	name  resourceapi.FullyQualifiedName
	lists bool
}

func (m matchAttribute) attribute() resourceapi.FullyQualifiedName { return m.name }

func (m matchAttribute) String() string { return "matchAttribute " + string(m.name) }

func (m matchAttribute) admit(state constraintState, value pools.Attribute) (constraintState, bool) {
	offered := m.compared(value)
	if state.devices == 0 {
		// Without lists, a value of a type unknown then stands alone.
		return constraintState{devices: 1, values: offered}, len(offered) > 0 || !m.lists
	}
	common := intersect(state.values, offered)
	return constraintState{devices: state.devices + 1, values: common}, len(common) > 0
}

func (m matchAttribute) compared(value pools.Attribute) []pools.Value {
	if m.lists {
		return value.Set
	}
	return scalar(value)
}

func scalar(value pools.Attribute) []pools.Value {
	if !value.HasScalar {
		return nil
	}
	return []pools.Value{value.Scalar}
}

// intersect returns the values of a that are in b, a itself if that is all.
func intersect(a, b []pools.Value) []pools.Value {
	kept := 0
	for kept < len(a) && slices.Contains(b, a[kept]) {
		kept++
	}
	if kept == len(a) {
		return a
	}
	common := slices.Clone(a[:kept])
	for _, v := range a[kept+1:] {
		if slices.Contains(b, v) {
			common = append(common, v)
		}
	}
	return common
}
