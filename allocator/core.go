package allocator

import (
	"context"
	"slices"
)

// coreBudget limits each of the searches that find a conflict core. A part whose
// search runs out of it stays in the core.
const coreBudget = 20_000

// conflictCore finds requests and constraints that cannot hold together, by leaving
// out, one after the other from the end, what is not needed for the conflict: of two
// requests that both fail, the first is cited. What remains is minimal as far as the
// budget reaches: without any one part it could be allocated.
func conflictCore(ctx context.Context, in *instance) []part {
	out := make(omitted)
	var core []part
	for _, p := range slices.Backward(in.problem.parts()) {
		out[p] = true
		if !conflicts(ctx, in, out) {
			delete(out, p)
			core = append(core, p)
		}
	}
	slices.Reverse(core)
	return core
}

// conflicts reports whether the problem certainly has no solution without some parts.
func conflicts(ctx context.Context, in *instance, out omitted) bool {
	s := newSearch(ctx, in, min(in.problem.allocator.budget, coreBudget))
	s.omitted = out
	ok, err := s.run()
	return !ok && err == nil
}
