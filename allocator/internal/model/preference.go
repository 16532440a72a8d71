package model

import (
	"context"
	"slices"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/solver"
)

// Result is what a search found, and what it missed.
type Result struct {
	solver.Result
	// Missed are the preferences that the solution does not have, the most important first.
	Missed []Miss
}

// Miss is a preference that a solution does not have.
type Miss struct {
	// Constraint is a position in Problem.Constraints.
	Constraint int
	// Undecided is set if the search for it used up its budget.
	Undecided bool
}

// Solve searches. The result is good until the Instance is used again.
//
// Among the solutions, the first counts of those that have the most important preference, if any
// has it; among these, of those that have the next one, and so on. Searches for preferences take at most
// as many steps together as the first one. What is preferred for the sake of topology is about several
// devices, and of the solutions with the alternatives that were picked before.
func (in *Instance) Solve(ctx context.Context) Result {
	best := in.solver.Solve(ctx, &in.problem, in.Budget, solver.AllRules)
	var missed []Miss
	left := in.Budget
	for k := in.Problem.Required(); k < len(in.Problem.Constraints) && best.Verdict == solver.Found; k++ {
		topology, offered := in.Problem.Constraints[k].Topology, in.offered(k, best)
		if topology && len(offered) < 2 {
			continue
		}
		relation := &in.problem.Relations[len(in.frame.groups)+k]
		if relation.Off = false; relation.Holds(offered) {
			continue // the first of all is the first of those that have it
		}
		// Another search takes the memory of the last one.
		best.Choices, best.Options = slices.Clone(best.Choices), slices.Clone(best.Options)
		problem := &in.problem
		if topology {
			problem = in.only(best.Options)
		}
		next := in.solver.Solve(ctx, problem, left, solver.AllRules)
		left = max(left-next.Stats.Steps, 0)
		next.Stats.Add(best.Stats)
		if next.Verdict == solver.None || next.Verdict == solver.Spent || next.Verdict == solver.Stopped && topology {
			relation.Off = true
			missed = append(missed, Miss{Constraint: k, Undecided: next.Verdict == solver.Spent})
			best.Stats = next.Stats
			continue
		}
		best = next
	}
	return Result{Result: best, Missed: missed}
}

// only is the problem with no other options than those that were picked, by request.
func (in *Instance) only(picked []int32) *solver.Problem {
	p := in.problem
	p.Requests = slices.Clone(p.Requests)
	for r := range p.Requests {
		options := slices.Clone(p.Requests[r].Options)
		for o := range options {
			if int32(o) != picked[r] {
				options[o] = solver.Option{Domain: options[o].Domain, All: true} // all of none cannot be had
			}
		}
		p.Requests[r].Options = options
	}
	return &p
}

// offered are the values of the devices that a constraint covers.
func (in *Instance) offered(constraint int, found solver.Result) (offered [][]int32) {
	for _, c := range found.Choices {
		alt := in.alternative(c)
		if k := alt.Covered(constraint); k >= 0 {
			offered = append(offered, in.Values(alt, k)[c.Device])
		}
	}
	return offered
}

// coreBudget limits each of the searches that find a conflict core. A part whose search runs out of
// it stays in the core.
const coreBudget = 20_000

// Core finds requests and constraints that cannot hold together, in a Problem that has no solution,
// by leaving out, one after the other from the end, what is not needed for the conflict: of two
// requests that both fail, the first is cited. What remains is minimal as far as the budget reaches:
// without any one part it could be allocated. What is not in the core stays left out.
func (in *Instance) Core(ctx context.Context) (core []claims.Part) {
	requests := len(in.problem.Requests)
	for k := requests + in.Problem.Required() - 1; k >= 0; k-- {
		var off *bool
		if k < requests {
			off = &in.problem.Requests[k].Off
		} else {
			off = &in.problem.Relations[len(in.frame.groups)+k-requests].Off
		}
		*off = true
		if in.solver.Solve(ctx, &in.problem, min(in.Budget, coreBudget), solver.AllRules).Verdict != solver.None {
			*off = false
			core = append(core, claims.Part(k))
		}
	}
	slices.Reverse(core)
	return core
}
