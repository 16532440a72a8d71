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

// Verdict is an answer without its particulars.
type Verdict uint8

// The verdicts. Undecided and Failed are neither a yes nor a no: the budget was spent, or there was an error.
const (
	Fits Verdict = iota
	Unfit
	Undecided
	Failed
)

// Answer is what the allocator says to a question about a node in a state.
type Answer struct {
	Verdict Verdict
	Err     error
	*Taken  // nil if it does not fit
	// Bound has, by claim, whether its devices tie it to the node, and else to which nodes.
	Bound []BoundTo
	// literal is that of the outcome. It is not known of errors.
	literal bool
	// question is what was asked about from, next the state after what is taken, once somebody asked.
	question *Question
	from     *State
	next     atomic.Pointer[State]
	// ahead are the answers about the states that follow if the same is asked again and again, as far as they were found
	// out with this one.
	ahead []decision
	// room is how often more the same fits after another, plus one; zero if unknown.
	room atomic.Int64
}

// Taken are the devices that something holds. It is immutable.
type Taken struct {
	Own    []Holding // of the node
	Shared []SharedHolding
}

// decision is what an answer says, whatever it is about.
type decision struct {
	verdict Verdict
	literal bool
	err     error
	taken   *Taken
	bound   []BoundTo
}

func (a *Answer) decision() decision {
	return decision{a.Verdict, a.literal, a.Err, a.Taken, a.Bound}
}

func (d *decision) answer() *Answer {
	return &Answer{Verdict: d.verdict, literal: d.literal, Err: d.err, Taken: d.taken, Bound: d.bound}
}

// weight is how many answers it stands for.
func (a *Answer) weight() int { return 1 + len(a.ahead) }

// outcome is what the allocator said.
type outcome struct {
	allocator.Outcome
	err error
}

// unnamedError is an error of an answer that nodes share: its text has no names of slices, pools and devices, which are those
// of one of the nodes.
type unnamedError struct{ err error }

// Error implements error.
func (e unnamedError) Error() string { return allocator.General(e.err) }

// Unwrap returns the error as it is about the node that was asked about first.
func (e unnamedError) Unwrap() error { return e.err }

// unnamed is an error without names, nil if there is none.
func unnamed(err error) error {
	if err == nil {
		return nil
	}
	return unnamedError{err}
}

// verdict is that of an answer.
func (o outcome) verdict() Verdict {
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

// Next is the state after what is taken.
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

// about says which state an answer is about.
func (a *Answer) about(s *State) *Answer {
	a.from = s
	return a
}

// Nothing is the answer for pods that have nothing to be allocated.
func Nothing(s *State) *Answer {
	return (&Answer{Verdict: Fits, Taken: new(Taken)}).about(s)
}

// Decided is the answer of somebody else.
func Decided(s *State, taken *Taken, bound []BoundTo) *Answer {
	return (&Answer{Verdict: Fits, Taken: taken, Bound: bound}).about(s)
}

// BoundTo says where an allocated claim can be used.
type BoundTo struct {
	Node     bool
	Selector *resourceapi.AllocationResult // its nodeSelector counts; nil with Node
}

// MaxOneByOne is how far is counted how often something fits. Beyond that, more may fit.
const MaxOneByOne = 1000

// Unlimited is how often something fits that takes nothing.
const Unlimited = math.MaxInt32

// Call is one call of the API: what it may spend, and what it found on the way.
type Call struct {
	Context context.Context
	Budget  int64 // steps left
	// Doubts is set if some node was neither a yes nor a no.
	Doubts bool
	Err    error // the first about a node
}

// NewCall starts a call. The error is the context's.
func (k *Asker) NewCall(ctx context.Context) (Call, error) {
	if ctx.Err() != nil {
		return Call{}, context.Cause(ctx)
	}
	return Call{Context: ctx, Budget: k.budget}, nil
}

// Note keeps what is not a definite answer.
func (c *Call) Note(a *Answer) {
	c.Doubts = c.Doubts || a.Verdict == Undecided || a.Verdict == Failed
	if c.Err == nil {
		c.Err = a.Err
	}
}

// Spent is the answer once the budget of the call is spent. It is not remembered.
var Spent = &Answer{Verdict: Undecided}

// ask returns the answer for a node that no pool of several nodes reaches, or for a question that
// such pools cannot serve. Up to as many answers as are wanted ahead are found out with it: those about the states that
// follow if the same is asked again and again. The error is the context's.
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
		a = &Answer{Verdict: a.Verdict, Err: a.Err, Taken: a.Taken, Bound: a.Bound, literal: a.literal} // no pool of several nodes was in the question
	case c.Budget <= 0:
		return Spent, nil
	default:
		if k.bounds.Answers == 0 || k.bounds.Total == 0 {
			ahead = 0 // they would be forgotten
		}
		if a, err = k.searchAhead(c, s, q, ahead); err != nil {
			return nil, err
		}
	}
	a.question = q
	return s.learn(a.about(s)), nil
}

// searchAhead asks the allocator.
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

// untainted is a state without taints of what-ifs that gives the same answers to a question as s, and so do the states
// that follow; nil if there is none. See decision 0048.
func (k *Asker) untainted(c *Call, s *State, q *Question) (*State, error) {
	fewer := s.fewerTaints()
	if fewer == nil || q.looksAtUsed {
		return nil, nil //nolint:nilnil // there is no such state
	}
	if known := fewer.all.known(q.id); known != nil && known.Verdict == Unfit {
		return fewer.all, nil
	}
	if q.tolerates || !k.taints {
		return nil, nil //nolint:nilnil // as above
	}
	// A tainted device is looked at, one that is withheld is not. What is no error with nothing in use is none with something.
	fresh, err := k.ask(c, fewer.all.content.fresh, q, 0)
	if err != nil || fresh == Spent || fresh.Verdict == Failed || fresh.literal {
		return nil, err
	}
	return fewer.withheld, nil
}

// Alike reports whether it is known that a question has the same answers about two states, and about those that follow.
// The error is the context's.
func (k *Asker) Alike(c *Call, one, other *State, q *Question) (bool, error) {
	a, err := k.untainted(c, one, q)
	if err != nil {
		return false, err
	}
	b, err := k.untainted(c, other, q)
	return cmp.Or(a, one) == cmp.Or(b, other), err
}

// newAnswer reads what an outcome takes.
func newAnswer(gates pools.Gates, o outcome, inv *Inventory, shared *SharedPools) *Answer {
	if o.err != nil {
		return &Answer{Verdict: Failed, Err: o.err}
	}
	a := &Answer{Verdict: o.verdict(), literal: o.Literal()}
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

// boundToNode is what most answers have.
var boundToNode = slices.Repeat([]BoundTo{{Node: true}}, 4)

// Room is how many more pods that ask a question fit on a node, one after the other, up to most of them. Doubt is
// set if the next one is undecided; the answer about it, if there is one, is next. Beyond most nobody is asked.
func (k *Asker) Room(c *Call, s *State, q *Question, most int64) (n int64, doubt bool, next *Answer, err error) {
	if same, err := k.untainted(c, s, q); err != nil {
		return 0, false, nil, err
	} else if same != nil {
		s = same
	}
	// chain are answers that were asked for, at how many fit before each.
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
		if a.Verdict != Fits {
			doubt, exact, next = a.Verdict != Unfit, a.Verdict == Unfit, a
			break
		}
		chain, at = append(chain, a), append(at, n)
		n += 1 + int64(len(a.ahead))
		if last := len(a.ahead) - 1; last >= 0 && a.ahead[last].verdict != Fits {
			n--
			next = a.ahead[last].answer()
			doubt, exact = next.Verdict != Unfit && n < most, next.Verdict == Unfit
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

// lastOf returns the states before and after what the last of the answers takes that were found out with one, and how many
// they are. Where somebody asked by itself about a state on the way, they end there.
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
