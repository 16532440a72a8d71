// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
)

// Finding is the outcome of a search, with devices by position.
type Finding struct {
	Satisfiable bool
	// Undecided is set if the budget was spent. Of the other fields only Literal is valid then.
	Undecided bool
	// Literal is Instance.Literal.
	Literal bool
	Choices []Choice
	// Picked is the index of the chosen alternative, by request, claim by claim.
	Picked []int32
	// Missed are preferences that the solution does not satisfy, the most important first.
	Missed []Miss
}

// Choice is a device that was chosen for an alternative.
type Choice struct {
	// Alternative is its ID.
	Alternative int
	// Place is the rank of the device among those on the node, in the order of the view.
	Place int32
	// Offer is the position in Alternative.Offers of the class by which the device serves.
	Offer int32
	// Filled are the amounts with which a share fills totals of the request. Nil if there are none.
	Filled []Filled
}

// Filled is an amount that a share consumes of a capacity.
type Filled struct {
	Capacity resourceapi.QualifiedName
	Amount   amount.Amount
}

// Finding translates a result whose End is Found, None or Spent.
func (in *Instance) Finding(result Result) Finding {
	if result.End != solver.Found {
		return Finding{Literal: in.Literal, Undecided: result.End == solver.Spent}
	}
	a := Finding{
		Satisfiable: true, Literal: in.Literal, Choices: make([]Choice, len(result.Choices)), Picked: slices.Clone(result.Options), Missed: result.Missed,
	}
	for i, c := range result.Choices {
		alt := in.alternative(c)
		a.Choices[i] = Choice{Alternative: alt.ID, Place: in.Node.List[c.Device].Place}
		if len(alt.Offers) > 1 {
			a.Choices[i].Offer = in.Node.OfferOf(in.Compiled.Filters[alt.Filter], c.Device)
		}
		if result.Filled != nil {
			a.Choices[i].Filled = in.frame.filled(result.Filled[i])
		}
	}
	return a
}

// filled names the capacities of draws. The resources of capacities come last.
func (f *frame) filled(draws []solver.Draw) (list []Filled) {
	first := len(f.poolOf) - len(f.capacities)
	for _, draw := range draws {
		list = append(list, Filled{Capacity: f.capacities[int(draw.Resource)-first].name, Amount: draw.Amount})
	}
	return list
}

// StopError returns why the search ended at a device. It evaluates the device again.
func (in *Instance) StopError(ctx context.Context, at solver.Stop) error {
	alt := in.Compiled.Requests[at.Request].Alternatives[at.Option]
	switch {
	case at.Cover < 0:
		return in.deviceError(alt, at.Device, in.Node.Error(ctx, in.Compiled.Filters[alt.Filter], at.Device))
	case at.Violated:
		return allError(in.Compiled.Path(alt), "device", in.Node.ID(at.Device).String(), "violates "+in.Compiled.ConstraintRef(alt.Constraints[at.Cover]), "")
	}
	compared := in.Compiled.Constraints[alt.Constraints[at.Cover]].Attribute
	_, _, err := in.Evaluator.Attribute(ctx, alt.Derived, in.Node.List[at.Device].Shape, compared)
	return in.deviceError(alt, at.Device, err)
}

// deviceError says that a device cannot be judged for a request. The error of an expression that does not
// compile does not name the device.
func (in *Instance) deviceError(alt *claims.Alternative, device int32, err error) error {
	path := in.Compiled.Path(alt)
	if eligibility.NotCompiled(err) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return &pool.NamedError{Text: fmt.Sprintf("%s: device %s: %v", path, in.Node.ID(device), err), General: fmt.Sprintf("%s: %v", path, err), Err: err}
}

// allError says which device or pool makes allocationMode All impossible. More is only part of the text that
// names it.
func allError(path, kind, name, what, more string) error {
	return &pool.NamedError{
		Text:    fmt.Sprintf("%s: asks for all devices, but %s %s %s%s", path, kind, name, what, more),
		General: fmt.Sprintf("%s: asks for all devices, but a %s %s", path, kind, what),
	}
}
