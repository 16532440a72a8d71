// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims joins ResourceClaims with their DeviceClasses and checks them: what is asked
// for, without regard to nodes and devices.
package claims

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// Problem is claims that are allocated together, in order. It is immutable.
type Problem struct {
	Claims []Claim
	// Requests are those of the claims, claim by claim.
	Requests []Request
	Filters  []*eligibility.Filter
	// Constraints are those of the claims, claim by claim, then those across claims, then those
	// of capacities, then limits of distinct values, and then those that are preferred, the most important first, with those of
	// the allocator at the end.
	Constraints []Constraint
	// Alternatives are those of all requests, by ID. Domains are alternatives that see
	// different things in devices, one of each.
	Alternatives, Domains []*Alternative
}

// Claim is one ResourceClaim of a Problem.
type Claim struct {
	Object   *resourceapi.ResourceClaim
	Requests []Request // part of Problem.Requests
}

// Request is one entry of a claim's requests: a single alternative, or several of which the first
// that allows a full solution is taken (KEP-4816).
type Request struct {
	// Claim is a position, Position that in the claim.
	Claim, Position int
	Name            string
	Prioritized     bool
	Alternatives    []*Alternative
}

// Least is the alternative with the fewest devices of a request without a prioritized list.
func (r *Request) Least() *Alternative {
	return r.Alternatives[slices.IndexFunc(r.Alternatives, func(alt *Alternative) bool { return !alt.Extra })]
}

// Alternative is an exact request or one subrequest of a prioritized list.
type Alternative struct {
	// Claim is a position.
	Claim int
	// ID is the position in Problem.Alternatives, Domain that in Problem.Domains of an
	// alternative that sees the same in each device.
	ID, Domain int
	// Name is how results and constraints refer to it: "request" or "request/subrequest".
	Name string
	eligibility.Terms
	// Filter is the position in Problem.Filters of that of the terms.
	Filter int
	// Count is meaningless with All. Of more than MostCount, which no claim holds, it is that, and Asked what is
	// asked for.
	Count int
	Asked int64
	// Extra is set if another alternative of the request differs in nothing but that it takes
	// fewer devices.
	Extra bool
	// Totals are what the devices have together, sorted by name.
	Totals  []Total
	Derived []eligibility.Derived
	// Constraints are the positions in Problem.Constraints that cover it.
	Constraints []int

	single [1]eligibility.Offer // room for Offers
	sees   []byte               // equal for alternatives of one Domain
}

// Total is an amount that devices have together, of the capacity of that name.
type Total struct {
	Name     resourceapi.QualifiedName
	Quantity resource.Quantity
	Amount   amount.Amount
}

// Constraint relates the devices of a claim's requests to each other by an attribute. With lists
// (KEP-5491), a scalar is a list of one.
type Constraint struct {
	Kind      solver.RelationKind
	Attribute resourceapi.FullyQualifiedName
	// Most is how many values there may be, with solver.AtMost.
	Most  int
	lists bool
	// Capacity is set if Attribute is the name of a capacity.
	Capacity bool
	// Claim is the position of the claim that it is of, or AcrossClaims. Position is that in
	// the list of the claim.
	Claim, Position int
	// Preferred is set if a solution may violate it.
	Preferred bool
	// Topology is set for a preference of the allocator, not of the claim. It is weaker: it takes no
	// other alternatives.
	Topology bool
	// Requests are the names that it covers, none for all.
	Requests []string
	// Held are devices of claims that are allocated already and take part.
	Held []pool.DeviceID
}

// AcrossClaims stands for the claim of a constraint that covers requests of several.
const AcrossClaims = -1

// String is how explanations name the constraint.
func (c Constraint) String() string {
	switch {
	case c.Capacity:
		return "matchCapacity " + string(c.Attribute)
	case c.Kind == solver.Distinct:
		return "distinctAttribute " + string(c.Attribute)
	case c.Kind == solver.AtMost:
		return fmt.Sprintf("maxDistinct %s (%d)", c.Attribute, c.Most)
	}
	return "matchAttribute " + string(c.Attribute)
}

// InSpec reports whether the constraint is in the list of constraints of the claim's spec.
func (c Constraint) InSpec() bool {
	return c.Claim != AcrossClaims && !c.Capacity && !c.Preferred && c.Kind != solver.AtMost
}

// Comparison is how a constraint compares the values of its attribute.
type Comparison struct {
	// Capacity is set for values of a capacity, Distinct if values that are not known never count, Lists if lists do.
	Capacity, Distinct, Lists bool
}

// Comparison returns that of the constraint: what Compared depends on beside the value.
func (c *Constraint) Comparison() Comparison {
	return Comparison{Capacity: c.Capacity, Distinct: c.Kind == solver.Distinct, Lists: c.lists}
}

// Compared are the values that count. Of a device that has the attribute, but none of these, the type is unknown, as
// lists are not known. What becomes of it depends on the kind. Values
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

// Particular reports whether more counts than what makes nodes alike: devices that are known by name,
// because they are allocated already, or what devices have that are not shared.
func (p *Problem) Particular() bool {
	return slices.ContainsFunc(p.Constraints, func(c Constraint) bool { return len(c.Held) > 0 || c.Capacity }) ||
		slices.ContainsFunc(p.Alternatives, func(alt *Alternative) bool { return len(alt.Totals) > 0 })
}

// ConstraintRef names a constraint with its place, as errors do.
func (p *Problem) ConstraintRef(constraint int) string {
	c := &p.Constraints[constraint]
	switch {
	case c.Claim == AcrossClaims:
		return fmt.Sprintf("%s across claims", c)
	case c.Capacity:
		return fmt.Sprintf("match of capacities %d (%s)", c.Position, c)
	case c.Preferred:
		return fmt.Sprintf("preference %d (%s)", c.Position, c)
	case c.Kind == solver.AtMost:
		return fmt.Sprintf("limit %d (%s)", c.Position, c)
	}
	return fmt.Sprintf("constraint %d (%s)", c.Position, c)
}

// Ref is the claim as errors and explanations name it.
func (c *Claim) Ref() string {
	if c.Object.Namespace == "" {
		return c.Object.Name
	}
	return c.Object.Namespace + "/" + c.Object.Name
}

// Path is how errors and explanations name an alternative.
func (p *Problem) Path(alt *Alternative) string {
	return "claim " + p.Claims[alt.Claim].Ref() + ": request " + alt.Name
}

// Covered is the position in Alternative.Constraints of a constraint of the problem, -1 if it does
// not cover the alternative.
func (alt *Alternative) Covered(constraint int) int { return slices.Index(alt.Constraints, constraint) }

// Part is a request or a constraint that is required: the position in Problem.Requests, or beyond these, that in
// Problem.Constraints. What is preferred stands in nobody's way.
type Part int

// Part returns what a part is, a request or else a constraint.
func (p *Problem) Part(part Part) (*Request, *Constraint) {
	if k := int(part) - len(p.Requests); k >= 0 {
		return nil, &p.Constraints[k]
	}
	return &p.Requests[part], nil
}

// Required is how many of the constraints are required. The others are preferred.
func (p *Problem) Required() int {
	n := len(p.Constraints)
	for n > 0 && p.Constraints[n-1].Preferred {
		n--
	}
	return n
}
