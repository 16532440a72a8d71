package allocator

import (
	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// room is memory for one instance and the search of it, to be used again for the next ones.
// Setting up small problems would otherwise mostly be asking for memory.
type room struct {
	words   slab[uint64]
	sets    slab[bitset.BitSet]
	counts  slab[int32]
	lists   slab[[]int32]
	ints    slab[int]
	picks   slab[[]int]
	flags   slab[bool]
	amounts slab[amount.Amount]
	shares  slab[[]amount.Amount]
	groups  slab[pools.GroupState]
	related slab[constraintState]
	claims  slab[[]constraintState]
	columns slab[[]constrained]
	offers  slab[[][]int32]
	table   slab[*valueTable]
	tables  slab[[]*valueTable]
}

// clear takes everything back that was given out.
func (r *room) clear() {
	r.words.clear()
	r.sets.clear()
	r.counts.clear()
	r.lists.clear()
	r.ints.clear()
	r.picks.clear()
	r.flags.clear()
	r.amounts.clear()
	r.shares.clear()
	r.groups.clear()
	r.related.clear()
	r.claims.clear()
	r.columns.clear()
	r.offers.clear()
	r.table.clear()
	r.tables.clear()
}

// set is an empty set of devices.
func (r *room) set(devices int) *bitset.BitSet {
	set := &r.sets.take(1)[0]
	*set = *bitset.FromWithLength(uint(devices), r.words.take((devices+63)/64))
	return set
}

// clone copies a set.
func (r *room) clone(of *bitset.BitSet) *bitset.BitSet {
	set := r.set(int(of.Len()))
	copy(set.Words(), of.Words())
	return set
}

// slab gives out parts of an array.
type slab[T any] struct {
	array []T
	// used is how much of the array is given out, asked how much was asked for.
	used, asked int
}

// maxSlab bounds the elements that are kept for the next time.
const maxSlab = 1 << 16

// take returns n zero values.
func (s *slab[T]) take(n int) []T {
	s.asked += n
	if s.used+n > len(s.array) {
		// What was given out keeps the old array for as long as it needs it.
		s.array, s.used = make([]T, max(n, min(len(s.array), maxSlab/2))), 0
	}
	part := s.array[s.used : s.used+n : s.used+n]
	s.used += n
	return part
}

// clear makes one array of what was enough the last time.
func (s *slab[T]) clear() {
	switch {
	case s.asked > maxSlab:
		s.array = nil
	case s.asked > len(s.array):
		s.array = make([]T, s.asked)
	default:
		clear(s.array[:s.used])
	}
	s.used, s.asked = 0, 0
}
