// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"slices"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/solver"
)

// Result is the result of a search, with the preferences that it missed.
type Result struct {
	solver.Result
	// Missed are the preferences that the solution does not satisfy, the most important first.
	Missed []Miss
}

// Miss is a preference that a solution does not satisfy.
type Miss struct {
	// Constraint is a position in Compiled.Constraints.
	Constraint int
	// Undecided is set if the search for it used up its budget.
	Undecided bool
}

// Solve searches for the best solution. The result is valid until the Instance is used again.
//
// It prefers solutions that satisfy the most important preference, if there are any; among these those that
// satisfy the next one, and so on. Next it prefers the best numbers of devices, with the alternatives chosen so
// far. Of the remaining solutions it takes the first.
//
// Preferences of the allocator's topology come last. They only apply to several devices, and keep the
// alternatives and numbers chosen so far. Searches for preferences and numbers together take at most as many
// steps as the first search.
func (in *Instance) Solve(ctx context.Context) Result {
	best := in.solver.Solve(ctx, &in.problem, in.Budget, in.rules())
	if best.End == solver.None && in.partial {
		if in.Complete(ctx) != nil {
			return Result{Result: solver.Result{End: solver.Cancelled}}
		}
		best = in.solver.Solve(ctx, &in.problem, in.Budget, in.rules())
	}
	var missed []Miss
	left, numbered := in.Budget, false
	for k := in.Compiled.Required(); k < len(in.Compiled.Constraints) && best.End == solver.Found; k++ {
		topology := in.Compiled.Constraints[k].Topology
		if topology && !numbered {
			if best, numbered = in.bestNumbers(ctx, best, &left), true; best.End != solver.Found {
				break
			}
		}
		offered := in.offeredValues(k, best)
		if topology && len(offered) < 2 {
			continue
		}
		relation := &in.problem.Relations[len(in.frame.groups)+k]
		if relation.Off = false; relation.Holds(offered) {
			continue // best is still the first solution
		}
		best = cloneResult(best)
		problem := &in.problem
		if topology {
			problem = in.restrictedTo(func(r, o int) bool { return int32(o) == best.Options[r] })
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
		best = in.bestNumbers(ctx, best, &left)
	}
	return Result{Result: best, Missed: missed}
}

// rules are the rules of all searches.
func (in *Instance) rules() solver.Rules { return solver.AllRules &^ in.Without }

// cloneResult copies a result, so that it stays valid during the next search.
func cloneResult(found solver.Result) solver.Result {
	found.Choices, found.Options = slices.Clone(found.Choices), slices.Clone(found.Options)
	return found
}

// bestNumbers returns the first solution with the best numbers of devices, where the numbers of earlier requests
// matter more. Alternatives stay, devices may change. It searches once for each number that is better than that
// of the solution before. If the steps are spent, its End is Spent, as the best solution is not known.
func (in *Instance) bestNumbers(ctx context.Context, best solver.Result, left *int64) solver.Result {
	for r := range in.Compiled.Requests {
		alternatives := in.Compiled.Requests[r].Alternatives
		if len(alternatives) < 2 {
			continue
		}
		same := func(r, o int) bool { // the chosen alternative with any number of devices
			alternatives := in.Compiled.Requests[r].Alternatives
			return alternatives[o].Name == alternatives[best.Options[r]].Name
		}
		for o := range int(best.Options[r]) {
			if !same(r, o) {
				continue
			}
			best = cloneResult(best)
			next := in.solver.Solve(ctx, in.restrictedTo(func(other, option int) bool {
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

// restrictedTo returns the problem with only those options for which keep is true.
func (in *Instance) restrictedTo(keep func(request, option int) bool) *solver.Problem {
	p := in.problem
	p.Requests = slices.Clone(p.Requests)
	for r := range p.Requests {
		options := slices.Clone(p.Requests[r].Options)
		for o := range options {
			if !keep(r, o) {
				options[o] = solver.Option{Domain: options[o].Domain, All: true} // allocationMode All without devices is never satisfied
			}
		}
		p.Requests[r].Options = options
	}
	return &p
}

// offeredValues returns the values of the chosen devices that a constraint covers.
func (in *Instance) offeredValues(constraint int, found solver.Result) (offered [][]int32) {
	for _, c := range found.Choices {
		alt := in.alternative(c)
		if k := alt.Covered(constraint); k >= 0 {
			offered = append(offered, in.Values(alt, k)[c.Device])
		}
	}
	return offered
}

// CoreBudget bounds the steps of each search for a conflict core. A part whose search runs out of steps stays
// in the core.
const CoreBudget = 20_000

// Core finds requests and constraints that cannot be satisfied together, for claims without a solution. It
// removes parts one by one, from the end, as long as no solution appears. So of two requests that both fail,
// the first is in the core. The core is minimal as far as the budget reaches: without any one part there is a
// solution. Parts that are not in the core stay switched off.
func (in *Instance) Core(ctx context.Context) (core []claims.Part) {
	requests := len(in.problem.Requests)
	for k := requests + in.Compiled.Required() - 1; k >= 0; k-- {
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
