// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims joins ResourceClaims with their DeviceClasses and checks them. It knows nothing of nodes and
// devices.
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

// Compiled is a list of claims that are allocated together. It is immutable.
type Compiled struct {
	Claims []Claim
	// Requests are those of the claims, claim by claim.
	Requests []Request
	Filters  []*eligibility.Filter
	// Constraints are those of the claims' specs, claim by claim. Then follow those across claims, those of
	// capacities, and limits of distinct values. Preferences come last, the most important first, with those of
	// the allocator's topology at the end.
	Constraints []Constraint
	// Alternatives are those of all requests, by ID. Domains has one alternative for each set of demands on
	// devices.
	Alternatives, Domains []*Alternative
}

// Claim is one ResourceClaim of a Compiled.
type Claim struct {
	Object   *resourceapi.ResourceClaim
	Requests []Request // part of Compiled.Requests
}

// Request is one entry of a claim's requests. It has one alternative, or several of which the first that
// permits a solution is taken (KEP-4816).
type Request struct {
	// Claim is a position in Compiled.Claims. Position is that in the claim's list.
	Claim, Position int
	Name            string
	Prioritized     bool
	Alternatives    []*Alternative
}

// Least returns the alternative with the fewest devices. The request must not have a prioritized list.
func (r *Request) Least() *Alternative {
	return r.Alternatives[slices.IndexFunc(r.Alternatives, func(alt *Alternative) bool { return !alt.Extra })]
}

// Alternative is an exact request or one subrequest of a prioritized list.
type Alternative struct {
	// Claim is a position in Compiled.Claims.
	Claim int
	// ID is the position in Compiled.Alternatives. Domain is the position in Compiled.Domains of an alternative
	// with equal demands on devices.
	ID, Domain int
	// Name is its name in results and constraints: "request" or "request/subrequest".
	Name string
	eligibility.Terms
	// Filter is the position in Compiled.Filters of the filter for the terms.
	Filter int
	// Count is the number of devices, at most MostCount. It is not used with All. Asked is the count in the
	// claim.
	Count int
	Asked int64
	// Extra is set if the request has an equal alternative with fewer devices, see extension.Request.UpTo.
	Extra bool
	// Totals are what the devices must have together, sorted by name.
	Totals  []Total
	Derived []eligibility.Derived
	// Constraints are the positions in Compiled.Constraints that cover it.
	Constraints []int

	offerBuffer [1]eligibility.Offer // memory for Offers
	domainKey   []byte               // the key of its Domain
}

// Total is an amount of a capacity that the devices of a request must have together.
type Total struct {
	Name     resourceapi.QualifiedName
	Quantity resource.Quantity
	Amount   amount.Amount
}

// Constraint relates the devices of requests by an attribute or a capacity. With lists (KEP-5491), a scalar is
// a list of one.
type Constraint struct {
	Kind      solver.RelationKind
	Attribute resourceapi.FullyQualifiedName
	// Most is the limit of a solver.AtMost.
	Most  int
	lists bool
	// Capacity is set if Attribute is the name of a capacity.
	Capacity bool
	// Claim is the position of its claim, or AcrossClaims. Position is that in the list of the claim.
	Claim, Position int
	// Preferred is set if a solution may violate it.
	Preferred bool
	// Topology is set for a preference of Options.Topology. It is weaker than those of claims: it does not
	// change which alternatives are chosen.
	Topology bool
	// Requests are the names of the requests that it covers, none for all.
	Requests []string
	// Held are devices of claims that are already allocated and take part in the constraint.
	Held []pool.DeviceID
}

// AcrossClaims is Constraint.Claim of a constraint that covers requests of several claims.
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

// Comparison says how a constraint compares values.
type Comparison struct {
	// Capacity is set for values of a capacity. Distinct is set if unknown values are left out. Lists is set if
	// values may be lists.
	Capacity, Distinct, Lists bool
}

// Comparison returns what Compared depends on besides the value.
func (c *Constraint) Comparison() Comparison {
	return Comparison{Capacity: c.Capacity, Distinct: c.Kind == solver.Distinct, Lists: c.lists}
}

// Compared returns the values to compare. They are empty, but not nil, if the attribute has a value of another
// type, as a list is without the feature. What that means depends on the kind. They are nil for an unknown
// value in a Distinct constraint: it may turn out to be equal to another one.
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

// IdentifiesDevices reports whether the answer depends on more than what equivalent nodes have in common: on devices
// of allocated claims, which are identified by name, or on capacities of devices that are not shareable.
func (p *Compiled) IdentifiesDevices() bool {
	return slices.ContainsFunc(p.Constraints, func(c Constraint) bool { return len(c.Held) > 0 || c.Capacity }) ||
		slices.ContainsFunc(p.Alternatives, func(alt *Alternative) bool { return len(alt.Totals) > 0 })
}

// ConstraintRef names a constraint with its position, for errors.
func (p *Compiled) ConstraintRef(constraint int) string {
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

// Ref is the name of the claim in errors and explanations.
func (c *Claim) Ref() string {
	if c.Object.Namespace == "" {
		return c.Object.Name
	}
	return c.Object.Namespace + "/" + c.Object.Name
}

// Path is the name of an alternative in errors and explanations.
func (p *Compiled) Path(alt *Alternative) string {
	return "claim " + p.Claims[alt.Claim].Ref() + ": request " + alt.Name
}

// Covered is the position in Alternative.Constraints of a constraint of the problem, -1 if it does not cover
// the alternative.
func (alt *Alternative) Covered(constraint int) int { return slices.Index(alt.Constraints, constraint) }

// Part is a request or a required constraint: the position in Compiled.Requests, or else len(Requests) plus that
// in Compiled.Constraints. Preferences are not parts, as they never cause a conflict.
type Part int

// Part returns the request or the constraint that a part is. The other one is nil.
func (p *Compiled) Part(part Part) (*Request, *Constraint) {
	if k := int(part) - len(p.Requests); k >= 0 {
		return nil, &p.Constraints[k]
	}
	return &p.Requests[part], nil
}

// Required is the number of constraints that are required. The others, which follow them, are preferences.
func (p *Compiled) Required() int {
	n := len(p.Constraints)
	for n > 0 && p.Constraints[n-1].Preferred {
		n--
	}
	return n
}
