// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

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
// has it; among these, of those that have the next one, and so on. Then of those with the alternatives that it
// picks, the first of those with the best numbers of devices. Searches for preferences and numbers take at most
// as many steps together as the first one. What is preferred for the sake of topology is about several
// devices, and of the solutions with the alternatives and numbers that were picked before.
func (in *Instance) Solve(ctx context.Context) Result {
	best := in.solver.Solve(ctx, &in.problem, in.Budget, in.rules())
	var missed []Miss
	left, numbered := in.Budget, false
	for k := in.Problem.Required(); k < len(in.Problem.Constraints) && best.End == solver.Found; k++ {
		topology := in.Problem.Constraints[k].Topology
		if topology && !numbered {
			if best, numbered = in.numbered(ctx, best, &left), true; best.End != solver.Found {
				break
			}
		}
		offered := in.offered(k, best)
		if topology && len(offered) < 2 {
			continue
		}
		relation := &in.problem.Relations[len(in.frame.groups)+k]
		if relation.Off = false; relation.Holds(offered) {
			continue // the first of all is the first of those that have it
		}
		best = kept(best)
		problem := &in.problem
		if topology {
			problem = in.only(func(r, o int) bool { return int32(o) == best.Options[r] })
		}
		next := in.solver.Solve(ctx, problem, left, in.rules())
		left = max(left-next.Stats.Steps, 0)
		next.Stats.Add(best.Stats)
		if next.End == solver.None || next.End == solver.Spent || next.End == solver.Stopped && topology {
			relation.Off = true
			missed = append(missed, Miss{Constraint: k, Undecided: next.End == solver.Spent})
			best.Stats = next.Stats
			continue
		}
		best = next
	}
	if !numbered && best.End == solver.Found {
		best = in.numbered(ctx, best, &left)
	}
	return Result{Result: best, Missed: missed}
}

// rules are those of each search.
func (in *Instance) rules() solver.Rules { return solver.AllRules &^ in.Without }

// kept is a result that stays good when another search takes the memory of the last one.
func kept(found solver.Result) solver.Result {
	found.Choices, found.Options = slices.Clone(found.Choices), slices.Clone(found.Options)
	return found
}

// numbered is the first solution with the numbers of devices that requests prefer: those of the first request are
// decided first. The alternatives stay, devices do not. It takes a search for each number that is preferred to that
// of the solution before, so none if that has the best ones. What is not decided with the steps left is Spent: which
// solution is meant is not known then.
func (in *Instance) numbered(ctx context.Context, best solver.Result, left *int64) solver.Result {
	for r := range in.Problem.Requests {
		alternatives := in.Problem.Requests[r].Alternatives
		if len(alternatives) < 2 {
			continue
		}
		same := func(r, o int) bool { // as the alternative that is picked, but for the number
			alternatives := in.Problem.Requests[r].Alternatives
			return alternatives[o].Name == alternatives[best.Options[r]].Name
		}
		for o := range int(best.Options[r]) {
			if !same(r, o) {
				continue
			}
			best = kept(best)
			next := in.solver.Solve(ctx, in.only(func(other, option int) bool {
				switch {
				case other < r:
					return int32(option) == best.Options[other]
				case other == r:
					return option == o
				}
				return same(other, option)
			}), *left, in.rules())
			*left = max(*left-next.Stats.Steps, 0)
			next.Stats.Add(best.Stats)
			if next.End == solver.None {
				best.Stats = next.Stats
				continue
			}
			if best = next; best.End != solver.Found {
				return best
			}
			break
		}
	}
	return best
}

// only is the problem with no other options than those that are kept.
func (in *Instance) only(keep func(request, option int) bool) *solver.Problem {
	p := in.problem
	p.Requests = slices.Clone(p.Requests)
	for r := range p.Requests {
		options := slices.Clone(p.Requests[r].Options)
		for o := range options {
			if !keep(r, o) {
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

// CoreBudget limits each of the searches that find a conflict core. A part whose search runs out of
// it stays in the core.
const CoreBudget = 20_000

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
		if in.solver.Solve(ctx, &in.problem, min(in.Budget, CoreBudget), in.rules()).End != solver.None {
			*off = false
			core = append(core, claims.Part(k))
		}
	}
	slices.Reverse(core)
	return core
}
