package allocator

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// constraint relates the devices of a claim's requests to each other. Constraints
// are monotonic: what refuses a device refuses it with more devices chosen, too.
type constraint interface {
	// attribute is the name of the attribute that is compared.
	attribute() resourceapi.FullyQualifiedName
	// admit returns the state after a device with the given attribute value is
	// chosen, or false if the device is refused. States are values: undoing a
	// choice puts the earlier one back.
	admit(state constraintState, value pools.Attribute) (constraintState, bool)
	// compared are the values that admit looks at.
	compared(value pools.Attribute) []pools.Value
	// String is how explanations name it.
	String() string
}

// constraintState is what a constraint knows of the devices chosen so far.
type constraintState struct {
	devices int
	// values are those that all devices share (match) or that some device has
	// (distinct). Never written to in place, except beyond its length.
	values []pools.Value
}

// newConstraint is the register of constraints: a new kind is one case here.
func newConstraint(f Features, asked resourceapi.DeviceConstraint) (constraint, error) {
	switch {
	case asked.MatchAttribute != nil:
		return matchAttribute{name: *asked.MatchAttribute, lists: f.ListTypeAttributes}, nil
	case asked.DistinctAttribute != nil:
		return distinctAttribute{name: *asked.DistinctAttribute, lists: f.ListTypeAttributes}, nil
	}
	return nil, errors.New("neither matchAttribute nor distinctAttribute is set (unsupported kind of constraint)")
}
