package allocator

import (
	"errors"
	"slices"
)

// What a search fails of is often the doing of a few requests, while the others multiply the
// ways to get there. A search that takes long therefore looks at those alone that failures were
// about so far: if they cannot be served, all together cannot be either. Where looking at a
// device can be an error, that is so as long as the search does not get there: with less taken,
// it gets to each error that it would get to otherwise. The violation of a constraint is not of
// this kind.

// focus is what a search knows of where it fails.
type focus struct {
	// blamed counts, by position of a request, the failures it had a part in.
	blamed []int64
	// aside are the requests that the search does without for the moment, by position.
	aside []bool
	// due is the number of steps after which to look at some requests alone, last that at
	// which the search did so before, pause how many pass until it does so again.
	due, last, pause int64
	// limit is the number of steps at which such a look ends, 0 if there is none.
	limit int64
	// barred is set if setting requests aside may hide errors.
	barred bool
}

// focusParts are which parts of the most failures that a request had a part in another one must
// have, to be looked at.
var focusParts = []int64{2, 8, 32}

var errLimit = errors.New("looked at some requests for long enough")

func (f *focus) prepare(s *search, requests int) {
	*f = focus{aside: s.space.flags.take(requests), blamed: f.blamed[:0], due: s.stats.Steps + longPatience, last: s.stats.Steps, pause: minPause}
	f.blamed = append(f.blamed, make([]int64, requests)...)
}

// blameOpen counts requests that could not be served.
func (f *focus) blameOpen(open []opening) {
	for i := range open {
		f.blamed[open[i].position]++
	}
}

// blameChosen counts the requests for which decisions of a conflict were made.
func (s *search) blameChosen(conflict levels) {
	f, last := s.foresight, -1
	for j := range s.chosen {
		if p := f.position(s.chosen[j].alt); p != last && conflict.has(s.chosen[j].level) {
			f.focus.blamed[p]++
			last = p
		}
	}
}

// doubts reports whether it is time to look at some requests alone, in the place where most of
// the steps since the last time were taken.
func (s *search) doubts(since int64) bool {
	f := &s.foresight.focus
	return f.limit == 0 && !f.barred && s.stats.Steps >= f.due && s.stats.Steps-since >= (s.stats.Steps-f.last)/2
}

// refutes looks for requests from a position on that cannot be served in the present state.
// Going on is the way to look at what is not set aside; s.conflict then says why they cannot.
func (s *search) refutes(position int, since int64, goOn func() verdict) (refuted bool) {
	f := &s.foresight.focus
	steps := max(minPause, s.stats.Steps-since) / lookShare
	for range s.foresight.selections(position) {
		if refuted = s.fails(steps, goOn); refuted || s.err != nil {
			break
		}
	}
	clear(f.aside)
	f.pause = min(2*f.pause, max(minPause, s.stats.Steps/lookShare))
	if refuted {
		f.pause = minPause
	}
	f.last = s.stats.Steps
	f.due = f.last + f.pause
	return refuted
}

// selections sets aside requests from a position on in one way after the other: those that had
// too little a part in failures, and those of one claim.
func (f *foresight) selections(position int) func(yield func() bool) {
	return func(yield func() bool) {
		before := 0
		for _, part := range focusParts {
			kept := f.focus.keep(position, part)
			if kept != before && kept < len(f.requests)-position && !yield() {
				return
			}
			before = kept
		}
		for c := range f.positions {
			if f.leave(c, position) && !yield() {
				return
			}
		}
	}
}

// keep sets aside the requests from a position on that had no part in failures, or not that
// part of the one that had most, and returns how many are left.
func (f *focus) keep(position int, part int64) (kept int) {
	most := slices.Max(f.blamed[position:])
	for p := position; p < len(f.aside); p++ {
		f.aside[p] = f.blamed[p] == 0 || f.blamed[p] < most/part
		if !f.aside[p] {
			kept++
		}
	}
	return kept
}

// leave sets aside a claim from a position on, unless it has nothing from there on or is all
// that there is.
func (f *foresight) leave(claim, position int) bool {
	first, end := f.positions[claim], len(f.requests)
	if claim+1 < len(f.positions) {
		end = f.positions[claim+1]
	}
	if end <= position || first <= position && end == len(f.requests) {
		return false
	}
	clear(f.focus.aside)
	for p := max(first, position); p < end; p++ {
		f.focus.aside[p] = true
	}
	return true
}

// fails reports whether a way to go on certainly fails, within some steps. All that was decided
// on it is taken back.
func (s *search) fails(steps int64, goOn func() verdict) bool {
	f := &s.foresight.focus
	before, chosen, depth := s.mark(), len(s.chosen), s.depth
	f.limit = s.stats.Steps + steps
	v := goOn()
	f.limit = 0
	s.undo(before)
	s.chosen, s.depth = s.chosen[:chosen], depth
	if s.err != nil && !errors.Is(s.err, errBudget) && !errors.Is(s.err, errImpatient) && s.ctx.Err() == nil {
		s.err = nil // errLimit, or an error that the search itself may not meet
	}
	return v == failed || v == oversized
}

// entered reports whether the search has come to a request that is set aside and at which it
// might meet an error.
func (s *search) entered(position int) bool {
	return s.foresight.focus.aside[position] && !s.omits(position) && s.mayErrAt(position, position)
}
