// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model translates compiled claims on one node into the terms of the solver, and a solution into the terms of
// the API.
//
//	claims.Compiled ─┐
//	eligibility.Node ┴► Instance ─► solver.Problem ─► solver.Result ─► Finding ─► AllocationResults
package model

import (
	"context"
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// Question is compiled claims asked about a node.
type Question struct {
	Compiled  *claims.Compiled
	Evaluator *eligibility.Evaluator
	View      cluster.NodeView
	Usage     eligibility.Usage
	// Before is the order of a policy, nil for first fit.
	Before func(a, b *Candidate) bool
	// Budget is the number of steps after which the answer is Undecided.
	Budget int64
	// Few is the number of devices up to which all are judged. Among more, a question for one device may end at
	// the first that serves.
	Few int
	// Without are rules that are switched off. They change the steps only, not the answer.
	Without solver.Rules
}

// Instance is a Question in the terms of the solver. Its buffers are used again. The zero value is ready to
// use, by one goroutine at a time.
type Instance struct {
	Question
	Node eligibility.Node
	// Literal is set if looking at some device can be an error, or if not all were judged. The order in which
	// devices are looked at then matters to the outcome.
	Literal bool

	// partial is set if the devices after the first that may serve were not judged.
	partial bool

	// taken are devices that were taken and are not marked in Node yet.
	taken    []int32
	filtered []eligibility.Domain // by filter
	frame    *frame
	// problem has its preferences switched off at first. Its requests are those of Compiled, in the same order.
	problem solver.Problem
	solver  solver.Solver
	memory  memory
}

// memory holds the buffers of translations.
type memory struct {
	sets    slab.Sets
	amounts slab.Slab[amount.Amount]
	covers  slab.Slab[solver.Cover]
	options slab.Slab[solver.Option]
	draws   slab.Slab[solver.Draw]
	lists   slab.Slab[[]solver.Draw]
}

// Domain is the result of an alternative's filter for the devices of the node.
func (in *Instance) Domain(alt *claims.Alternative) *eligibility.Domain {
	return &in.filtered[alt.Filter]
}

// Values returns, by device, the values that a constraint compares. Covered is the position of the constraint
// in Alternative.Constraints.
func (in *Instance) Values(alt *claims.Alternative, covered int) [][]int32 {
	return in.problem.Domains[alt.Domain].Covers[covered].Values
}

// alternative returns the alternative for which a device was chosen.
func (in *Instance) alternative(c solver.Choice) *claims.Alternative {
	return in.Compiled.Requests[c.Request].Alternatives[c.Option]
}

// Needed is how many devices an alternative takes.
func (in *Instance) Needed(alt *claims.Alternative) int {
	if alt.All {
		return len(in.Domain(alt).Mandatory)
	}
	return alt.Count
}

// Begin judges the devices that the node reaches and translates the question. An error is about the input. It
// holds for every node unless it names one.
func (in *Instance) Begin(ctx context.Context, q Question) error {
	in.Question = q
	in.Node.Begin(q.Evaluator, q.View, q.Usage, &in.memory.sets)
	in.frame = frameOf(in.Node.Devices)
	in.filtered = append(in.filtered[:0], make([]eligibility.Domain, len(q.Compiled.Filters))...)
	if err := in.judge(ctx); err != nil {
		return err
	}
	in.addDevices()
	for _, alt := range q.Compiled.Domains {
		in.addDomain(alt)
	}
	for _, alt := range q.Compiled.Alternatives {
		if err := in.checkAll(ctx, alt); err != nil {
			return err
		}
	}
	for position := range q.Compiled.Constraints {
		if err := in.constrain(ctx, position); err != nil {
			return err
		}
	}
	if q.Before != nil {
		in.prefer(q.Before)
	}
	in.addRequests()
	return in.checkLimits()
}

// judge fills in the domains of the filters.
func (in *Instance) judge(ctx context.Context) error {
	in.partial, in.Literal = false, false
	one := in.takesFirst()
	for f, filter := range in.Compiled.Filters {
		var err error
		if one {
			var complete bool
			complete, err = in.Node.JudgeFirst(ctx, filter, &in.filtered[f], in.Few)
			in.partial = !complete
		} else {
			err = in.Node.Judge(ctx, filter, &in.filtered[f])
		}
		if err != nil {
			return err
		}
		in.Literal = in.Literal || in.partial || in.filtered[f].Stops != nil
	}
	return nil
}

// takesFirst reports whether the solution is the first device that serves by itself and for which there is enough
// of counters and shares: the claims ask for one device, and relate it to no other.
func (in *Instance) takesFirst() bool {
	c := in.Compiled
	return len(c.Alternatives) == 1 && len(c.Filters) == 1 && len(c.Constraints) == 0 && in.Before == nil &&
		c.Alternatives[0].Count == 1 && !c.Alternatives[0].All && len(c.Alternatives[0].Totals) == 0
}

// Complete judges the devices that were not judged so far. The error is about the context.
func (in *Instance) Complete(ctx context.Context) error {
	if !in.partial {
		return nil
	}
	in.partial = false
	in.filtered[0] = eligibility.Domain{}
	if err := in.Node.Judge(ctx, in.Compiled.Filters[0], &in.filtered[0]); err != nil {
		return err
	}
	in.Literal = in.filtered[0].Stops != nil
	in.problem.Domains = in.problem.Domains[:0]
	in.addDomain(in.Compiled.Domains[0])
	return nil
}

// Take adds the devices of the last result to those in use, so that Solve returns what Begin and Solve would.
// It returns false and does nothing if an allocation changes more than which devices are free.
func (in *Instance) Take(found Result) bool {
	if len(found.Choices) == 0 || in.Literal || in.Before != nil || len(in.Compiled.Constraints) > in.Compiled.Required() {
		return false
	}
	for _, c := range found.Choices {
		d := &in.Node.List[c.Device]
		if d.Shareable || in.alternative(c).Admin || in.Node.Pools[d.Pool].Repeats() {
			return false
		}
	}
	for _, c := range found.Choices {
		in.taken = append(in.taken, c.Device)
		for f := range in.filtered {
			in.filtered[f].Allowed.Clear(uint(c.Device))
		}
		for _, draw := range in.frame.devices[c.Device].Draws {
			left := &in.problem.Left[draw.Resource]
			*left = left.Sub(draw.Amount)
		}
	}
	if len(in.frame.groups) > 0 {
		in.frame.relations(in.Used(), in.problem.Relations[:0]) // the relations of constraints stay
	}
	return true
}

// Used is the usage of the node's pools, with what was taken.
func (in *Instance) Used() []*pool.Usage {
	in.Node.Take(in.taken)
	in.taken = in.taken[:0]
	return in.Node.Used
}

// Release drops all references but keeps buffers.
func (in *Instance) Release() {
	in.Node.Release()
	in.solver.Release()
	clear(in.filtered)
	clear(in.problem.Relations)
	clear(in.problem.Domains)
	clear(in.problem.Requests)
	in.problem = solver.Problem{Relations: in.problem.Relations[:0], Domains: in.problem.Domains[:0], Requests: in.problem.Requests[:0]}
	in.Question, in.frame, in.taken = Question{}, nil, in.taken[:0]
	m := &in.memory
	for _, part := range [...]interface{ Reset() }{&m.sets, &m.amounts, &m.covers, &m.options, &m.draws, &m.lists} {
		part.Reset()
	}
}

// checkAll returns an error if a pool cannot be used, as nobody knows then which devices allocationMode All
// means. A mandatory device that cannot be judged is an error, too.
func (in *Instance) checkAll(ctx context.Context, alt *claims.Alternative) error {
	if !alt.All {
		return nil
	}
	for _, pv := range in.View.Pools {
		if reason := pv.Incomplete + pv.Invalid; reason != "" {
			return allError(in.Compiled.Path(alt), "pool", pv.Pool.ID.String(), "cannot be used", ": "+reason)
		}
	}
	if stops := in.Domain(alt).Stops; stops != nil {
		first, _ := stops.NextSet(0)
		return in.deviceError(alt, int32(first), in.Node.Error(ctx, in.Compiled.Filters[alt.Filter], int32(first)))
	}
	in.Literal = in.Literal || len(alt.Constraints) > 0 && in.Needed(alt) > 0
	return nil
}

// reportedCount is Needed for error messages: a count is the one that the claim asks for.
func (in *Instance) reportedCount(alt *claims.Alternative) int64 {
	if !alt.All && alt.Count == claims.MostCount {
		return alt.Asked
	}
	return int64(in.Needed(alt))
}

// checkLimits returns an error for claims whose smallest result is larger than the API can hold. It names the
// request that exceeds the limit.
func (in *Instance) checkLimits() error {
	for c := range in.Compiled.Claims {
		claim := &in.Compiled.Claims[c]
		least := int64(0)
		for r := range claim.Requests {
			fewest := int64(math.MaxInt64)
			for _, alt := range claim.Requests[r].Alternatives {
				fewest = min(fewest, in.reportedCount(alt))
			}
			if least += min(fewest, math.MaxInt64-least); least > resourceapi.AllocationResultsMaxSize {
				return fmt.Errorf("claim %s: request %s: asks for %d devices, with which the claim would have %d, more than the %d that it can hold",
					claim.Ref(), claim.Requests[r].Name, fewest, least, resourceapi.AllocationResultsMaxSize)
			}
		}
	}
	return nil
}
