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
	// Choices are the devices of the first solution, by request, in ascending order in each;
	// Options are the options chosen, by request. They are good until the Solver is used again.
	Choices []Choice
	Options []int32
	// Filled is what each choice takes of resources besides Domain.Shares. Nil if no Domain has
	// Fills. It stays good.
	Filled [][]Draw
	// Stop is where the search was ended, if it was.
	Stop  Stop
	Stats Stats
}

// Solver solves one Problem after the other, in memory that it keeps. The zero value is ready to
// use, by one goroutine at a time.
type Solver struct {
	// Patience is how many steps a search takes before it looks for completions. Zero is what most searches end within.
	Patience int64

	search search
	memory memory
}

// Solve looks for the first solution in the order of requests, options and devices, or for a
// device before it at which looking ends the search, whichever comes first. It takes at most
// as many steps as the budget. Rules that are left out change the steps, not the result.
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

// Release forgets the last Problem and keeps the memory.
func (s *Solver) Release() {
	if s.search.p != nil {
		s.search.forget()
		s.memory.reset()
	}
}

// memory is what one search after the other works in.
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
