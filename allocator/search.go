package allocator

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// search finds the first solution in first-fit order: claims and requests as listed,
// subrequests by preference, the devices of a request in ascending order. It leaves
// out only choices under which there is no solution, so what it finds is what trying
// everything would find first. Where looking at a device can be an error
// (instance.literal), it leaves out nothing.
type search struct {
	*state
	ctx    context.Context
	budget int64
	stats  Stats
	// err ends the search: bad input or cancellation.
	err error
	// chosen is the solution so far.
	chosen []choice
	// picked is the index of the alternative per claim and request.
	picked [][]int
	// classes are interchangeable devices. Nil until the first backtrack.
	classes []int32
	// omitted are parts of the problem to leave out, for conflict cores.
	omitted omitted
}

// choice is one decision: a device for a slot of an alternative.
type choice struct {
	alt    *alternative
	device int32
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
	// halted: the search ended with err or without budget.
	halted
)

var errBudget = errors.New("step budget is spent")

// checkEvery is how many steps pass between two looks at the context.
const checkEvery = 256

func newSearch(ctx context.Context, in *instance, budget int64) *search {
	s := &search{state: newState(in), ctx: ctx, budget: budget, picked: make([][]int, len(in.problem.claims))}
	for c := range in.problem.claims {
		s.picked[c] = make([]int, len(in.problem.claims[c].requests))
	}
	return s
}

// run returns whether there is a solution, or why that is not known.
func (s *search) run() (bool, error) {
	switch s.request(0, 0) {
	case found:
		return true, nil
	case halted:
		return false, s.err
	}
	return false, nil
}

// step pays for one unit of work.
func (s *search) step() bool {
	s.stats.Steps++
	if s.stats.Steps > s.budget {
		s.err = errBudget
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
	if s.omitted.request(c, r) {
		return s.request(c, r+1)
	}
	// Only a search that has gone wrong before pays for the check.
	if s.stats.Backtracks > 0 && !s.in.literal && s.starved(c, r) {
		return failed
	}
	return s.anyOf(compiled.requests[r].alternatives)
}

// anyOf tries the alternatives of a request by preference.
func (s *search) anyOf(alternatives []*alternative) verdict {
	result := oversized
	for _, alt := range alternatives {
		s.picked[alt.claim][alt.request] = alt.index
		switch v := s.alternative(alt); v {
		case found, halted:
			return v
		case failed:
			result = failed
		}
	}
	return result
}

func (s *search) alternative(alt *alternative) verdict {
	b := &s.in.alternatives[alt.id]
	switch {
	case alt.all && b.needed == 0:
		return failed
	case b.needed == 0:
		return s.request(alt.claim, alt.request+1)
	case int(s.claimed[alt.claim])+b.needed > resourceapi.AllocationResultsMaxSize:
		return oversized
	case alt.all:
		return s.every(alt, b, 0)
	}
	return s.slot(alt, b, 0, 0)
}

// slot chooses the device for slot n of an alternative, from position start on:
// the order of devices within a request does not matter, so it ascends.
func (s *search) slot(alt *alternative, b *bound, n int, start uint) verdict {
	if n == b.needed {
		return s.request(alt.claim, alt.request+1)
	}
	if !s.in.literal && s.shortfall(alt, b, b.needed-n, start) {
		return failed
	}
	var tried classSet
	for i, ok := s.next(b, start); ok; i, ok = s.next(b, i+1) {
		device := int32(i)
		if tried.has(s, device) {
			continue
		}
		if !s.step() {
			return halted
		}
		before := s.level()
		placed := s.place(alt, b, device)
		if s.err != nil {
			return halted
		}
		if !placed {
			s.undo(before)
			continue
		}
		if v := s.below(alt, device, func() verdict { return s.slot(alt, b, n+1, i+1) }); v != failed {
			if v == oversized {
				s.undo(before)
			}
			return v
		}
		s.undo(before)
		tried.add(s, device)
	}
	return failed
}

// every chooses the devices of a request for all, from position n on. There is
// nothing to choose: each must be had.
func (s *search) every(alt *alternative, b *bound, n int) verdict {
	if n == b.needed {
		return s.request(alt.claim, alt.request+1)
	}
	if !s.step() {
		return halted
	}
	device := b.domain.mandatory[n]
	before := s.level()
	placed := s.placeMandatory(alt, b, device)
	if s.err != nil {
		return halted
	}
	v := failed
	if placed {
		v = s.below(alt, device, func() verdict { return s.every(alt, b, n+1) })
	}
	if v == failed || v == oversized {
		s.undo(before)
	}
	return v
}

// below records a decision and goes on. On failure the decision is taken back.
func (s *search) below(alt *alternative, device int32, next func() verdict) verdict {
	s.stats.Decisions++
	s.chosen = append(s.chosen, choice{alt, device})
	v := next()
	if v == failed || v == oversized {
		s.stats.Backtracks++
		s.chosen = s.chosen[:len(s.chosen)-1]
	}
	return v
}

// next returns the first device from position start on that must be looked at.
func (s *search) next(b *bound, start uint) (uint, bool) {
	i, ok := b.domain.allowed.NextSet(start)
	if !s.in.literal || len(b.domain.bad) == 0 {
		return i, ok
	}
	end := uint(len(s.in.devices))
	if ok {
		end = i
	}
	for j := start; j < end; j++ {
		if b.domain.bad[int32(j)] != nil {
			return j, true
		}
	}
	return i, ok
}

// shortfall reports whether fewer than need devices are left for an alternative.
// Devices chosen already stay chosen below this point, so there is no solution.
func (s *search) shortfall(alt *alternative, b *bound, need int, start uint) bool {
	for i, ok := b.domain.allowed.NextSet(start); ok; i, ok = b.domain.allowed.NextSet(i + 1) {
		if s.taken(alt, int32(i)) {
			continue
		}
		if need--; need == 0 {
			return false
		}
	}
	return true
}

// classSet remembers for one slot which classes of interchangeable devices failed.
type classSet struct{ failed []int32 }

func (t *classSet) add(s *search, i int32) {
	if s.in.literal || !s.untouched(i) {
		return
	}
	if s.classes == nil {
		s.classes = s.in.interchangeable()
	}
	t.failed = append(t.failed, s.classes[i])
}

func (t *classSet) has(s *search, i int32) bool {
	if len(t.failed) == 0 || !s.untouched(i) {
		return false
	}
	for _, class := range t.failed {
		if class == s.classes[i] {
			return true
		}
	}
	return false
}

// untouched reports whether no choice so far involves the device.
func (s *search) untouched(i int32) bool { return s.holders[i] == 0 && s.shares[i] == 0 }
