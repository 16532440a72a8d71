// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// Fit says whether a question fits on a node.
type Fit uint8

// Undecided and Failed are neither yes nor no: the budget ran out, or there was an error.
const (
	Fits Fit = iota
	Unfit
	Undecided
	Failed
)

// Answer is the allocator's answer to a question about a node in a state.
type Answer struct {
	Fit    Fit
	Err    error
	*Taken // nil unless Fit is Fits
	// Bound says for each claim where it can be used.
	Bound []BoundTo
	// literal is Outcome.Literal, false for errors.
	literal bool
	// question was asked about the state from. next is the state after the allocation, nil until Next computes
	// it.
	question *Question
	from     *State
	next     atomic.Pointer[State]
	// ahead are outcomes for the following states, if the same question is asked repeatedly. The search that
	// found this answer computed them, too.
	ahead []decision
	// room is how many more times the question fits after this answer, plus one; zero if that is unknown.
	room atomic.Int64
}

// Taken are the devices that an allocation holds. It is immutable.
type Taken struct {
	Own    []Holding // devices of the node
	Shared []SharedHolding
}

// decision is the part of an answer that does not depend on its state.
type decision struct {
	fit     Fit
	literal bool
	err     error
	taken   *Taken
	bound   []BoundTo
}

func (a *Answer) decision() decision {
	return decision{a.Fit, a.literal, a.Err, a.Taken, a.Bound}
}

func (d *decision) answer() *Answer {
	return &Answer{Fit: d.fit, literal: d.literal, Err: d.err, Taken: d.taken, Bound: d.bound}
}

// weight is the number of answers that it counts as in the bound of all nodes.
func (a *Answer) weight() int { return 1 + len(a.ahead) }

// outcome is the result of the allocator.
type outcome struct {
	allocator.Outcome
	err error
}

// unnamedError is the error of a cached answer. Its text has no names of slices, pools and devices, as the
// answer is shared by nodes with other names.
type unnamedError struct{ err error }

// Error implements error.
func (e unnamedError) Error() string { return allocator.General(e.err) }

// Unwrap returns the error for the node that was searched.
func (e unnamedError) Unwrap() error { return e.err }

// unnamed wraps an error. Nil stays nil.
func unnamed(err error) error {
	if err == nil {
		return nil
	}
	return unnamedError{err}
}

// fit converts the result of the allocator.
func (o outcome) fit() Fit {
	switch {
	case o.err != nil:
		return Failed
	case o.Verdict() == allocator.Satisfiable:
		return Fits
	case o.Verdict() == allocator.NotSatisfiable:
		return Unfit
	}
	return Undecided
}

// Next returns the state after the allocation.
func (a *Answer) Next() *State {
	if known := a.next.Load(); known != nil {
		return known
	}
	next := a.from.Change(a.Own, true)
	if len(a.ahead) > 0 {
		following := a.ahead[0].answer()
		following.question, following.ahead = a.question, a.ahead[1:]
		if room := a.room.Load(); room > 0 {
			following.room.Store(room - 1)
		}
		next.learn(following.about(next))
	}
	a.next.Store(next)
	return next
}

// about sets the state that an answer is about.
func (a *Answer) about(s *State) *Answer {
	a.from = s
	return a
}

// Nothing returns the answer for a pod that needs no allocation.
func Nothing(s *State) *Answer {
	return (&Answer{Fit: Fits, Taken: new(Taken)}).about(s)
}

// Decided returns an answer for an allocation that was chosen elsewhere.
func Decided(s *State, taken *Taken, bound []BoundTo) *Answer {
	return (&Answer{Fit: Fits, Taken: taken, Bound: bound}).about(s)
}

// BoundTo says where an allocated claim can be used.
type BoundTo struct {
	Node     bool
	Selector *resourceapi.AllocationResult // its nodeSelector is used; nil if Node is set
}

// MaxOneByOne is the largest number of times for which it is counted how often a question fits. More may fit.
const MaxOneByOne = 1000

// Unlimited is the count for a question that allocates nothing.
const Unlimited = math.MaxInt32

// Call is the budget of one call of the API, and what went wrong during it.
type Call struct {
	Context context.Context
	Budget  int64 // remaining search steps
	// Doubts is set if the answer for some node was neither yes nor no.
	Doubts bool
	Err    error // the first error about a node
}

// NewCall starts a call. The error is the context's.
func (k *Asker) NewCall(ctx context.Context) (Call, error) {
	if ctx.Err() != nil {
		return Call{}, context.Cause(ctx)
	}
	return Call{Context: ctx, Budget: k.budget}, nil
}

// Note records an answer that is not definite.
func (c *Call) Note(a *Answer) {
	c.Doubts = c.Doubts || a.Fit == Undecided || a.Fit == Failed
	if c.Err == nil {
		c.Err = a.Err
	}
}

// Spent is the answer when the budget of the call has run out. It is not cached.
var Spent = &Answer{Fit: Undecided}

// ask returns the answer for a node if no pool of several nodes can serve the question there. The search also
// computes up to ahead further answers, for the states that follow if the same question is asked repeatedly.
// The error is the context's.
func (k *Asker) ask(c *Call, s *State, q *Question, ahead int64) (*Answer, error) {
	if known := s.known(q.id); known != nil {
		return known, nil
	}
	same, err := k.untainted(c, s, q)
	if err != nil {
		return nil, err
	}
	var a *Answer
	switch {
	case same != nil:
		if a, err = k.ask(c, same, q, 0); err != nil || a == Spent {
			return a, err
		}
		a = &Answer{Fit: a.Fit, Err: a.Err, Taken: a.Taken, Bound: a.Bound, literal: a.literal} // the answer is not for a pool of several nodes, so Shared is empty
	case c.Budget <= 0:
		return Spent, nil
	default:
		if k.cache.Answers == 0 || k.cache.Total == 0 {
			ahead = 0 // there is no cache for them
		}
		if a, err = k.searchAhead(c, s, q, ahead); err != nil {
			return nil, err
		}
	}
	a.question = q
	return s.learn(a.about(s)), nil
}

// searchAhead runs the allocator, and repeats it up to ahead times on its own results.
func (k *Asker) searchAhead(c *Call, s *State, q *Question, ahead int64) (*Answer, error) {
	r := s.content.snapshot()
	var first *Answer
	for o, err := range q.Problem.Repeat(c.Context, r.state(k.usage(s)), r.node) {
		if c.Context.Err() != nil {
			return nil, context.Cause(c.Context)
		}
		found := outcome{o, unnamed(err)}
		c.spend(found)
		a := newAnswer(k.gates, found, s.content.example, nil)
		if first == nil {
			first = a
		} else {
			first.ahead = append(first.ahead, a.decision()) // the outcome refers to all of the search
		}
		if ahead--; ahead < 0 || c.Budget <= 0 {
			break
		}
	}
	first.ahead = slices.Clip(first.ahead)
	return first, nil
}

func (c *Call) spend(o outcome) {
	if o.err == nil {
		c.Budget -= o.Stats().Steps
	}
}

// untainted returns a state without simulated taints that gives the same answers to a question as s, also in
// the states that follow. It is nil if there is none. See decision 0048.
func (k *Asker) untainted(c *Call, s *State, q *Question) (*State, error) {
	fewer := s.fewerTaints()
	if fewer == nil || q.looksAtUsed {
		return nil, nil //nolint:nilnil // there is no such state
	}
	if known := fewer.all.known(q.id); known != nil && known.Fit == Unfit {
		return fewer.all, nil
	}
	if q.tolerates || !k.taints {
		return nil, nil //nolint:nilnil // as above
	}
	// Selectors are evaluated on tainted devices, but not on withheld ones. A question without an error when
	// nothing is in use has none later.
	fresh, err := k.ask(c, fewer.all.content.fresh, q, 0)
	if err != nil || fresh == Spent || fresh.Fit == Failed || fresh.literal {
		return nil, err
	}
	return fewer.withheld, nil
}

// Alike reports whether it is known that a question has the same answers in two states, and in the states that
// follow.
func (k *Asker) Alike(c *Call, one, other *State, q *Question) (bool, error) {
	a, err := k.untainted(c, one, q)
	if err != nil {
		return false, err
	}
	b, err := k.untainted(c, other, q)
	return cmp.Or(a, one) == cmp.Or(b, other), err
}

// newAnswer converts an outcome: which devices it allocates, and where the claims are bound.
func newAnswer(gates pools.Gates, o outcome, inv *Inventory, shared *SharedPools) *Answer {
	if o.err != nil {
		return &Answer{Fit: Failed, Err: o.err}
	}
	a := &Answer{Fit: o.fit(), literal: o.Literal()}
	assignment, ok := o.Outcome.(*allocator.Assignment)
	if !ok {
		return a
	}
	results := assignment.Results()
	a.Taken = new(Taken)
	if shared == nil {
		devices := 0
		for claim := range results {
			devices += len(results[claim].Devices.Results)
		}
		a.Own = make([]Holding, 0, devices) // there are many answers
	}
	a.Bound = make([]BoundTo, len(results))
	for claim := range results {
		bound := &a.Bound[claim]
		bound.Selector = &results[claim]
		for i := range results[claim].Devices.Results {
			result := &results[claim].Devices.Results[i]
			id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			h := Holding{Claim: int32(claim), Request: result.Request}
			if result.ShareID != nil && gates.ConsumableCapacity {
				h.Share, h.Consumed = true, result.ConsumedCapacity
			}
			position, own := inv.Position(id)
			if own {
				bound.Node, bound.Selector = true, nil
			}
			held, found := shared.Holding(id, h)
			if held.Binds {
				bound.Node, bound.Selector = true, nil
			}
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case own:
				h.Device = position
				a.Own = append(a.Own, h)
			case found:
				a.Shared = append(a.Shared, held)
			default:
				panic(fmt.Sprintf("device %s was allocated on node %s, which does not reach it", id, inv.Node.Name))
			}
		}
	}
	if len(a.Bound) <= len(boundToNode) && !slices.ContainsFunc(a.Bound, func(b BoundTo) bool { return !b.Node }) {
		a.Bound = boundToNode[:len(a.Bound):len(a.Bound)]
	}
	return a
}

// boundToNode backs Answer.Bound of most answers: all devices are of the node.
var boundToNode = slices.Repeat([]BoundTo{{Node: true}}, 4)

// Room counts how many more times a question fits on a node, one after the other, up to most. doubt is set if
// the next time is undecided. next is the answer for the next time, nil if it was not searched.
func (k *Asker) Room(c *Call, s *State, q *Question, most int64) (n int64, doubt bool, next *Answer, err error) {
	if same, err := k.untainted(c, s, q); err != nil {
		return 0, false, nil, err
	} else if same != nil {
		s = same
	}
	// chain are the answers on the way, at the counts before each.
	var chain []*Answer
	var at []int64
	exact := false
	for n < most {
		a, err := k.ask(c, s, q, min(most, MaxOneByOne)-n-1)
		if err != nil {
			return 0, false, nil, err
		}
		if known := a.room.Load(); known != 0 {
			n, exact = n+known-1, true
			break
		}
		if a.Fit != Fits {
			doubt, exact, next = a.Fit != Unfit, a.Fit == Unfit, a
			break
		}
		chain, at = append(chain, a), append(at, n)
		n += 1 + int64(len(a.ahead))
		if last := len(a.ahead) - 1; last >= 0 && a.ahead[last].fit != Fits {
			n--
			next = a.ahead[last].answer()
			doubt, exact = next.Fit != Unfit && n < most, next.Fit == Unfit
			break
		}
		if n >= MaxOneByOne {
			doubt = n < most
			break
		}
		if n < most {
			before, after, taken := k.lastOf(a)
			if after == before || len(after.Uses) == len(before.Uses) && after.Uses.Same(before.Uses) {
				return most, false, nil, nil
			}
			n, s = at[len(at)-1]+taken, after
		}
	}
	for i, a := range chain {
		if exact {
			a.room.Store(n - at[i] + 1)
		}
	}
	if !doubt {
		next = nil
	}
	return min(n, most), doubt, next, nil
}

// lastOf returns the states before and after the last outcome that was found together with an answer, and the
// number of outcomes. It stops at a state for which the question was searched separately.
func (k *Asker) lastOf(a *Answer) (before, after *State, taken int64) {
	taken = 1
	for range len(a.ahead) {
		following := a.Next().known(a.question.id)
		if following == nil {
			break
		}
		a, taken = following, taken+1
	}
	k.follow(a)
	return a.from, a.Next(), taken
}
