// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"cmp"
	"context"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/internal/amount"
)

// Result is the answer to a Problem.
type Result struct {
	End End
	// Choices are the devices of the first solution, by request, in ascending order in each. Options are the
	// options chosen, by request. Both are valid until the Solver is used again.
	Choices []Choice
	Options []int32
	// Filled is what each choice takes of resources in addition to Domain.Shares. Nil if no Domain has Fills.
	// It stays valid.
	Filled [][]Draw
	// Stop says where the search ended, if End is Stopped.
	Stop  Stop
	Stats Stats
}

// Solver solves one Problem after the other, with buffers that it keeps. The zero value is ready to use, by one
// goroutine at a time.
type Solver struct {
	// Patience is the number of steps after which a search restarts with the rules for long searches. Zero is
	// the default; most searches end within it.
	Patience int64

	search search
	memory memory
}

// Solve looks for the first solution in the order of requests, options and devices, or for an earlier device at
// which looking ends the search. It takes at most budget steps. Rules that are off change the number of steps,
// not the result.
func (s *Solver) Solve(ctx context.Context, p *Problem, budget int64, rules Rules) Result {
	s.Release()
	s.search.begin(ctx, p, &s.memory, budget, rules)
	s.search.patience = cmp.Or(s.Patience, patience)
	end := s.search.solve()
	result := Result{End: end, Stop: s.search.stop, Stats: s.search.stats}
	if end == Found {
		result.Choices, result.Options = s.search.chosen, s.search.picked
		if p.fills() {
			result.Filled = slices.Clone(s.search.filled)
		}
	}
	return result
}

// Release drops the last Problem but keeps the buffers.
func (s *Solver) Release() {
	if s.search.p != nil {
		s.search.forget()
		s.memory.reset()
	}
}

// memory holds the buffers that searches use one after the other.
type memory struct {
	counts    slab.Slab[int32]
	flags     slab.Slab[bool]
	amounts   slab.Slab[amount.Amount]
	table     slab.Slab[[]amount.Amount]
	relations slab.Slab[relationState]
	openings  slab.Slab[opening]
	fails     slab.Slab[propagator]
	sets      slab.Sets
	setLists  slab.Slab[*bitset.BitSet]
}

func (m *memory) reset() {
	for _, part := range [...]interface{ Reset() }{
		&m.counts, &m.flags, &m.amounts, &m.table, &m.relations, &m.openings, &m.fails, &m.sets, &m.setLists,
	} {
		part.Reset()
	}
}
