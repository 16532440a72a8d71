package allocator

import (
	"context"
	"fmt"

	"github.com/dray-project/dray/pools"
)

// Outcome is the answer to a Problem on a node: an *Assignment, an *Unsatisfiable or
// an *Undecided. Bad input and cancellation are errors, never outcomes.
type Outcome interface {
	// Stats tells what the answer cost.
	Stats() Stats
	outcome()
}

// Unsatisfiable says that the claims cannot be allocated on the node, and why. It is
// a value, safe for concurrent use.
type Unsatisfiable struct {
	question
	answer *answer
}

// Alike is equal (==) for the answers of one Problem about nodes which it cannot tell apart.
// It can be the key of a map. Where usage is a *pools.Usage, explanations of such answers
// differ in names only.
func (u *Unsatisfiable) Alike() any { return u.answer }

// InvalidPools reports whether the node has pools that cannot be used because their
// content is invalid. Upstream turns that into an error for the node.
func (u *Unsatisfiable) InvalidPools() bool {
	for _, pv := range u.view.Pools {
		if pv.Invalid != "" {
			return true
		}
	}
	return false
}

// Explain works out why. It looks at each device of the node. The first time for answers that
// are Alike it also searches, for each request and constraint about as much as for the answer.
func (u *Unsatisfiable) Explain() *Explanation {
	ctx, in := context.Background(), u.instance()
	if _, exact := u.usage.(*pools.Usage); !exact {
		// The answer may be that for the node as it is when nothing is in use.
		return explain(ctx, in, conflictCore(ctx, in))
	}
	return explain(ctx, in, u.answer.conflictCore(ctx, in))
}

// String is the explanation in one sentence.
func (u *Unsatisfiable) String() string { return u.Explain().Summary }

// Undecided says that the step budget ended the search: the claims may or may not be
// allocatable on the node.
type Undecided struct {
	node  string
	stats Stats
}

// Stats implements Outcome. It is what was spent.
func (u *Undecided) Stats() Stats { return u.stats }

func (*Undecided) outcome() {}

// Node is the name of the node.
func (u *Undecided) Node() string { return u.node }

// String says what was spent.
func (u *Undecided) String() string {
	return fmt.Sprintf("node %s: undecided after %d steps and %d backtracks", u.node, u.stats.Steps, u.stats.Backtracks)
}
