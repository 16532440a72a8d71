package solver

import (
	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/internal/amount"
)

// memory is what one search after the other works in.
type memory struct {
	counts    slab.Slab[int32]
	lists     slab.Slab[[]int32]
	flags     slab.Slab[bool]
	amounts   slab.Slab[amount.Amount]
	table     slab.Slab[[]amount.Amount]
	relations slab.Slab[relationState]
	openings  slab.Slab[opening]
	sets      slab.Sets
	setLists  slab.Slab[*bitset.BitSet]
}

func (m *memory) reset() {
	m.counts.Reset()
	m.lists.Reset()
	m.flags.Reset()
	m.amounts.Reset()
	m.table.Reset()
	m.relations.Reset()
	m.openings.Reset()
	m.sets.Reset()
	m.setLists.Reset()
}
