package allocator

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// search finds the first solution in first-fit order: claims and requests as listed,
// subrequests by preference, the devices of a request in ascending order. Where looking
// at a device can be an error, it finds the first solution or error. It leaves out only
// choices under which the first one is not, so what it finds is what trying everything
// would find first. It leaves out
//
//   - devices that are interchangeable with one that failed (symmetry);
//   - what gives a request less than its twin after it (twins);
//   - what comes after a choice that starves an open request (lookahead, support);
//   - states of which the like have failed before (nogoods);
//   - other values for decisions which a failure does not depend on (conflict).
type search struct {
	state
	ctx    context.Context
	budget int64
	stats  Stats
	// err ends the search: bad input, cancellation or errBudget.
	err error
	// chosen is the solution so far, depth the number of decisions on the way to it:
	// devices for slots, and alternatives of prioritized requests.
	chosen []choice
	depth  int
	// picked is the index of the alternative per claim and request, pickedAt the level
	// at which it was picked.
	picked, pickedAt [][]int
	// conflict says on which levels the last failure depends, reach up to which request
	// it counts on being served: an error until there would come before the failure.
	conflict levels
	reach    int
	// next holds constraint states between refusal and commit.
	next []constraintState
	// omitted are parts of the problem to leave out, for conflict cores.
	omitted omitted
	// foresight is there once the search has reached a dead end: it then looks ahead.
	foresight *foresight
	// ahead is where foresight is kept.
	ahead foresight
	// rechecks counts looks at devices for requests to come.
	rechecks int64
	// root is the state after foresight was prepared, before the first decision.
	root mark
	// patience is after how many steps to probe, 0 for never.
	patience int64
}

// choice is one decision: a device for a slot of an alternative.
type choice struct {
	alt    *alternative
	device int32
	level  int
}

// verdict is how a subtree of the search ended.
type verdict int

const (
	// failed: no solution below.
	failed verdict = iota
	// found: chosen holds a solution.
	found
	// oversized: the claim would hold too many devices whatever devices are
	// chosen. Only another alternative of the same claim can help.
	oversized
	// halted: the search ended with err.
	halted
)

var (
	errBudget = errors.New("step budget is spent")
	// errDeadEnd ends the first attempt, which takes the first device that comes
	// along and does not look ahead. Mostly it succeeds.
	errDeadEnd = errors.New("dead end")
)

// checkEvery is how many steps pass between two looks at the context.
const checkEvery = 256

func newSearch(ctx context.Context, in *instance, budget int64) *search {
	s := new(search)
	s.begin(ctx, in, new(room), budget)
	return s
}

// begin sets up a search in memory that an earlier one may have used.
func (s *search) begin(ctx context.Context, in *instance, r *room, budget int64) {
	s.state.begin(in, r)
	s.ctx, s.budget, s.stats, s.err = ctx, budget, Stats{}, nil
	s.chosen, s.depth, s.reach, s.rechecks = s.chosen[:0], 0, 0, 0
	s.conflict.clear()
	s.next, s.omitted, s.foresight = s.next[:0], nil, nil
	s.picked, s.pickedAt = r.picks.take(len(in.problem.claims)), r.picks.take(len(in.problem.claims))
	for c := range in.problem.claims {
		s.picked[c] = r.ints.take(len(in.problem.claims[c].requests))
		s.pickedAt[c] = r.ints.take(len(in.problem.claims[c].requests))
	}
}

// clear leaves nothing but memory.
func (s *search) clear() {
	s.trail.forget()
	clear(s.chosen[:cap(s.chosen)])
	clear(s.next[:cap(s.next)])
	clear(s.pools)
	if s.foresight != nil {
		s.ahead.clear()
	}
	*s = search{
		state: state{trail: s.trail, pools: s.pools[:0]}, ahead: s.ahead,
		chosen: s.chosen[:0], conflict: s.conflict[:0], next: s.next[:0],
	}
}

// run returns whether there is a solution, or why that is not known.
func (s *search) run() (bool, error) {
	if !s.in.literal && s.hopeless() {
		return false, nil
	}
	v := s.request(0, 0)
	if errors.Is(s.err, errDeadEnd) {
		s.restart()
		v = failed
		if !s.starved(nil, 0, 0) {
			v = s.request(0, 0)
		}
	}
	for errors.Is(s.err, errImpatient) {
		v = s.insist()
	}
	switch v {
	case found:
		return true, nil
	case halted:
		return false, s.err
	}
	return false, nil
}

// restart takes everything back and goes on with caution.
func (s *search) restart() {
	s.undo(mark{})
	s.stats.Backtracks += int64(len(s.chosen))
	s.chosen, s.depth, s.err = s.chosen[:0], 0, nil
	s.foresee()
	s.root = s.mark()
	s.patience = s.stats.Steps + longPatience
	if s.worthProbing() {
		s.patience = s.stats.Steps + patience
	}
}

// answer is the solution found, by position.
func (s *search) answer() *answer {
	a := &answer{satisfiable: true, choices: make([]choiceAt, len(s.chosen)), picked: make([][]int, len(s.picked))}
	for c := range s.picked {
		a.picked[c] = slices.Clone(s.picked[c])
	}
	for i, c := range s.chosen {
		a.choices[i] = choiceAt{c.alt.id, s.in.devices[c.device].place}
	}
	return a
}

// hopeless reports whether some request has too few candidates from the start.
func (s *search) hopeless() bool {
	s.stats.Steps++
	for c := range s.in.problem.claims {
		for r := range s.in.problem.claims[c].requests {
			request := &s.in.problem.claims[c].requests[r]
			b := &s.in.alternatives[request.alternatives[0].id]
			if !request.prioritized && !s.omitted.request(c, r) && b.domain.allowed.Count() < uint(b.needed) {
				return true
			}
		}
	}
	return false
}

// step pays for one unit of work.
func (s *search) step() bool {
	s.stats.Steps++
	if s.stats.Steps > s.budget {
		s.err = errBudget
		return false
	}
	if s.foresight != nil && s.foresight.focus.limit > 0 && s.stats.Steps > s.foresight.focus.limit {
		s.err = errLimit
		return false
	}
	if s.patience > 0 && s.stats.Steps > s.patience {
		s.patience, s.err = 0, errImpatient
		return false
	}
	if s.stats.Steps%checkEvery == 1 {
		if cause := context.Cause(s.ctx); cause != nil {
			s.err = fmt.Errorf("allocation on node %s was cancelled: %w", s.in.node.Name, cause)
			return false
		}
	}
	return true
}

// request decides request r of claim c and everything after it.
func (s *search) request(c, r int) verdict {
	if c == len(s.in.problem.claims) {
		return found
	}
	if !s.step() {
		return halted
	}
	compiled := &s.in.problem.claims[c]
	if r == len(compiled.requests) {
		if v := s.request(c+1, 0); v != oversized {
			return v
		}
		// Too many devices for the next claim says nothing about this one.
		return failed
	}
	switch request := &compiled.requests[r]; {
	case s.skips(c, r):
		if s.foresight != nil && s.entered(s.foresight.positions[c]+r) {
			return found
		}
		return s.request(c, r+1)
	case request.prioritized:
		return s.anyOf(c, r, request.alternatives)
	default:
		return s.alternative(request.alternatives[0])
	}
}

// skips reports whether the search does without a request.
func (s *search) skips(c, r int) bool {
	return s.omitted.request(c, r) || s.foresight != nil && s.foresight.focus.aside[s.foresight.positions[c]+r]
}
