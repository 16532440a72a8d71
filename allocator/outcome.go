package allocator

import (
	"context"
	"fmt"
)

// Outcome is the answer to a Problem on a node: an *Assignment, an *Unsatisfiable or
// an *Undecided. Bad input and cancellation are errors, never outcomes.
type Outcome interface {
	// Stats tells what the answer cost.
	Stats() Stats
	outcome()
}

func verdictOf(o Outcome) Verdict {
	switch o.(type) {
	case *Assignment:
		return Satisfiable
	case *Unsatisfiable:
		return NotSatisfiable
	case *Undecided:
		return NotDecided
	}
	return NoVerdict
}

// Unsatisfiable says that the claims cannot be allocated on the node, and why. It is
// a value, safe for concurrent use.
type Unsatisfiable struct {
	question
	answer *answer
}

// Alike is equal (==) for the answers of one Problem about nodes which it cannot tell apart.
// Their explanations differ in names only. It can be the key of a map.
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

// Explain works out why. The work is done anew at each call and is bounded: about
// as much as the search itself for each request and constraint.
func (u *Unsatisfiable) Explain() *Explanation { return explain(context.Background(), u.instance()) }

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
