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
	out := in.Problem.WithoutPreferences()
	best := in.search(ctx, out, nil, in.budget)
	if out == nil || best.Verdict != solver.Found {
		return Result{Result: best}
	}
	var missed []Miss
	left := in.budget
	for k := in.Problem.Required(); k < len(in.Problem.Constraints); k++ {
		topology, offered := in.Problem.Constraints[k].Topology, in.offered(k, best)
		if topology && len(offered) < 2 {
			continue
		}
		out.SetConstraint(in.Problem, k, false)
		if relation := in.relation(k, false); relation.Holds(offered) {
			continue // the first of all is the first of those that have it
		}
		// Another search takes the memory of the last one.
		best.Choices, best.Options = slices.Clone(best.Choices), slices.Clone(best.Options)
		var picked []int32
		if topology {
			picked = best.Options
		}
		next := in.search(ctx, out, picked, left)
		left = max(left-next.Stats.Steps, 0)
		next.Stats.Add(best.Stats)
		switch {
		case next.Verdict == solver.Found:
			best = next
			continue
		case next.Verdict == solver.None, next.Verdict == solver.Spent, next.Verdict == solver.Stopped && topology:
			out.SetConstraint(in.Problem, k, true)
			missed = append(missed, Miss{Constraint: k, Undecided: next.Verdict == solver.Spent})
			best.Stats = next.Stats
		default:
			return Result{Result: next}
		}
	}
	return Result{Result: best, Missed: missed}
}

func (in *Instance) search(ctx context.Context, out claims.Omitted, picked []int32, budget int64) solver.Result {
	return in.solver.Solve(ctx, in.problem.build(in, out, picked), budget, solver.AllRules)
}

// offered are the values of the devices that a constraint covers.
func (in *Instance) offered(constraint int, found solver.Result) (offered [][]int32) {
	for _, c := range found.Choices {
		alt := in.alternative(c.Request, c.Option)
		if k := alt.Covered(constraint); k >= 0 {
			offered = append(offered, in.Alternatives[alt.ID].Columns[k].Values[c.Device])
		}
	}
	return offered
}
