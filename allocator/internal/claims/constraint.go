package claims

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// Constraint relates the devices of a claim's requests to each other by an attribute. With lists
// (KEP-5491), a scalar is a list of one.
type Constraint struct {
	Kind      solver.RelationKind
	Attribute resourceapi.FullyQualifiedName
	lists     bool
	// Capacity is set if Attribute is the name of a capacity.
	Capacity bool
	// Claim is the position of the claim that it is of, or AcrossClaims. Position is that in
	// the list of the claim.
	Claim, Position int
	// Preferred is set if a solution may violate it. Requests are then the names that it covers.
	Preferred bool
	Requests  []string
	// Held are devices of claims that are allocated already and take part.
	Held []pool.DeviceID
}

// AcrossClaims stands for the claim of a constraint that covers requests of several.
const AcrossClaims = -1

// newConstraint is the register of constraints: a new kind is one case here.
func newConstraint(f eligibility.Features, asked resourceapi.DeviceConstraint) (Constraint, error) {
	switch {
	case asked.MatchAttribute != nil:
		return Constraint{Kind: solver.Match, Attribute: *asked.MatchAttribute, lists: f.ListTypeAttributes}, nil
	case asked.DistinctAttribute != nil:
		return Constraint{Kind: solver.Distinct, Attribute: *asked.DistinctAttribute, lists: f.ListTypeAttributes}, nil
	}
	return Constraint{}, errors.New("neither matchAttribute nor distinctAttribute is set (unsupported kind of constraint)")
}

// constraintAcross is a match of several claims.
func constraintAcross(f eligibility.Features, attribute resourceapi.FullyQualifiedName) Constraint {
	return Constraint{Kind: solver.Match, Attribute: attribute, lists: f.ListTypeAttributes, Claim: AcrossClaims}
}

// String is how explanations name the constraint.
func (c Constraint) String() string {
	switch {
	case c.Capacity:
		return "matchCapacity " + string(c.Attribute)
	case c.Kind == solver.Distinct:
		return "distinctAttribute " + string(c.Attribute)
	}
	return "matchAttribute " + string(c.Attribute)
}

// Compared are the values that count. A device that has the attribute, but none of these, is
// admitted as the first device only, and only if lists are not known: its type is unknown then. Values
// that are not known may turn out to be equal, so that nobody can call them distinct.
func (c Constraint) Compared(value shape.Attribute) []shape.Value {
	switch {
	case c.Kind == solver.Distinct && value.Unknown:
		return nil
	case c.lists:
		return value.Set
	case value.HasScalar:
		return []shape.Value{value.Scalar}
	}
	return []shape.Value{}
}
