// Package model is a Problem on one node in the terms of the solver, and a solution in the terms of
// the API.
//
//	claims.Problem ─┐
//	eligibility.Node ┴► Instance ─► solver.Problem ─► solver.Result ─► Answer ─► AllocationResults
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
	"github.com/dray-project/dray/internal/index/cluster"
)

// Question is a Problem asked about a node.
type Question struct {
	Problem   *claims.Problem
	Evaluator *eligibility.Evaluator
	View      cluster.NodeView
	Usage     eligibility.Usage
	// Before is the order of a policy, nil for first fit.
	Before func(a, b *Candidate) bool
	// Budget is the number of steps after which the answer is not known.
	Budget int64
}

// Instance is a question in memory that is used again: the node's devices and what each filter says
// of them. The zero value is ready to use, by one goroutine at a time.
type Instance struct {
	Node    eligibility.Node
	Problem *claims.Problem
	// Domains are by filter, Alternatives by ID.
	Domains      []eligibility.Domain
	Alternatives []Alternative
	// Literal is set if looking at some device can be an error: which devices are looked at
	// then decides the outcome.
	Literal bool

	evaluator *eligibility.Evaluator
	budget    int64
	// values are how many values each constraint compares.
	values  []int32
	sets    slab.Sets
	columns slab.Slab[*Column]
	// candidates and sorted are room for a policy.
	candidates []Candidate
	sorted     []*Candidate
	solver     solver.Solver
	problem    builder
}

// Alternative is an alternative on the node.
type Alternative struct {
	Domain *eligibility.Domain
	// Needed is how many devices it takes.
	Needed int
	// Columns are the attributes that constraints compare, by constraint of the alternative.
	// Nil if no constraint covers it.
	Columns []*Column
	// offers are the positions in claims.Alternative.Offers by device. Nil if there is one.
	offers []int32
	// order is that of a policy, of the devices of the domain. Nil for first fit, and unless the
	// alternative stands for its domain.
	order []int32
}

// Begin lists the devices that a node reaches and judges them. The error is about the input: it
// stands for every node unless it names one.
func (in *Instance) Begin(ctx context.Context, q Question) error {
	in.Problem, in.evaluator, in.budget, in.Literal = q.Problem, q.Evaluator, q.Budget, false
	in.Node.Begin(q.Evaluator, q.View, q.Usage, &in.sets)
	in.Domains = in.Domains[:0]
	for range in.Problem.Filters {
		in.Domains = append(in.Domains, eligibility.Domain{})
	}
	for f, filter := range in.Problem.Filters {
		if err := in.Node.Judge(ctx, filter, &in.Domains[f]); err != nil {
			return err
		}
		in.Literal = in.Literal || len(in.Domains[f].Bad) > 0
	}
	if err := in.bind(ctx); err != nil {
		return err
	}
	if q.Before != nil {
		in.prefer(q.Before)
	}
	return in.checkLimits()
}

// Release forgets the question and keeps memory.
func (in *Instance) Release() {
	in.Node.Release()
	in.solver.Release()
	in.problem.release()
	clear(in.Domains)
	clear(in.Alternatives)
	in.Problem, in.evaluator = nil, nil
	in.sets.Reset()
	in.columns.Reset()
}

// bind counts the devices which "all" means and looks up the attributes that constraints compare.
func (in *Instance) bind(ctx context.Context) error {
	in.Alternatives, in.values = in.Alternatives[:0], in.values[:0]
	for _, alt := range in.Problem.Alternatives {
		bound := Alternative{Domain: &in.Domains[alt.Offers[0].Filter], Needed: alt.Count}
		if len(alt.Offers) > 1 {
			in.bindOffers(alt, &bound)
		}
		if alt.All {
			if err := in.bindAll(alt, &bound); err != nil {
				return err
			}
		}
		in.Alternatives = append(in.Alternatives, bound)
	}
	for position := range in.Problem.Constraints {
		if err := in.bindConstraint(ctx, position); err != nil {
			return err
		}
	}
	return nil
}

// bindOffers joins what several classes offer. Alternatives that see the same share it.
func (in *Instance) bindOffers(alt *claims.Alternative, bound *Alternative) {
	if first := in.Problem.Domains[alt.Domain]; first.ID < alt.ID {
		known := &in.Alternatives[first.ID]
		bound.Domain, bound.offers = known.Domain, known.offers
		return
	}
	of := make([]*eligibility.Domain, len(alt.Offers))
	for i, offer := range alt.Offers {
		of[i] = &in.Domains[offer.Filter]
	}
	bound.Domain, bound.offers = in.Node.Join(of)
}

// bindAll refuses to say what "all" is while a pool cannot tell. Devices that are mandatory and
// violate a constraint are an error.
func (in *Instance) bindAll(alt *claims.Alternative, bound *Alternative) error {
	for _, pv := range in.Node.View.Pools {
		if reason := pv.Incomplete + pv.Invalid; reason != "" {
			return fmt.Errorf("%s: asks for all devices, but pool %s cannot be used: %s", in.Problem.Path(alt), pv.Pool.ID, reason)
		}
	}
	if len(bound.Domain.Bad) > 0 {
		return fmt.Errorf("%s: %w", in.Problem.Path(alt), bound.Domain.FirstError())
	}
	bound.Needed = len(bound.Domain.Mandatory)
	in.Literal = in.Literal || len(alt.Constraints) > 0 && bound.Needed > 0
	return nil
}

// checkLimits refuses claims whose smallest result is larger than the API can hold. It names the
// request that makes it so.
func (in *Instance) checkLimits() error {
	for c := range in.Problem.Claims {
		claim := &in.Problem.Claims[c]
		least := 0
		for r := range claim.Requests {
			fewest := math.MaxInt
			for _, alt := range claim.Requests[r].Alternatives {
				fewest = min(fewest, in.Alternatives[alt.ID].Needed)
			}
			if least += fewest; least > resourceapi.AllocationResultsMaxSize {
				return fmt.Errorf("claim %s: request %s: asks for %d devices, with which the claim would have %d, more than the %d that it can hold",
					claim.Ref(), claim.Requests[r].Name, fewest, least, resourceapi.AllocationResultsMaxSize)
			}
		}
	}
	return nil
}

// coreBudget limits each of the searches that find a conflict core. A part whose search runs out of
// it stays in the core.
const coreBudget = 20_000

// Core finds requests and constraints that cannot hold together, in a Problem that has no solution,
// by leaving out, one after the other from the end, what is not needed for the conflict: of two
// requests that both fail, the first is cited. What remains is minimal as far as the budget reaches:
// without any one part it could be allocated.
func (in *Instance) Core(ctx context.Context) []claims.Part {
	out := in.Problem.WithoutPreferences()
	if out == nil {
		out = make(claims.Omitted)
	}
	all := in.Problem.Parts()
	var core []claims.Part
	for k := len(all) - 1; k >= 0; k-- {
		out[all[k]] = true
		problem := in.problem.build(in, out, nil)
		if in.solver.Solve(ctx, problem, min(in.budget, coreBudget), solver.AllRules).Verdict != solver.None {
			delete(out, all[k])
			core = append([]claims.Part{all[k]}, core...)
		}
	}
	return core
}
