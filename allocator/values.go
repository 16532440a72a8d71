package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/pools"
)

// valueTable numbers the values that a constraint compares.
type valueTable struct {
	at         claimConstraint
	constraint constraint
	ids        map[pools.Value]int32
	count      int32
	// groups are, for a distinctAttribute, the value that stands for each device: the
	// most common of its values. -1 if there is none or alternatives see others.
	groups []int32
	// holders are, for a matchAttribute, the devices that offer a value, by value and
	// demand. Nil for a demand without any.
	holders [][]*bitset.BitSet
	// last is the value that served when last looked for.
	last int32
}

// addValues makes the tables of all constraints that are not left out.
func (f *foresight) addValues(s *search) {
	f.values = make([][]*valueTable, len(s.in.problem.claims))
	for c := range f.values {
		f.values[c] = make([]*valueTable, len(s.in.problem.claims[c].constraints))
	}
	for d := range f.demands {
		demand := &f.demands[d]
		demand.values = make([][][]int32, len(demand.alt.constraints))
		for k, position := range demand.alt.constraints {
			if s.omitted.constraint(demand.alt.claim, position) {
				continue
			}
			table := &f.values[demand.alt.claim][position]
			if *table == nil {
				*table = f.newTable(s, claimConstraint{demand.alt.claim, position})
			}
			demand.values[k] = (*table).offers(s, demand, k)
		}
	}
	for _, table := range f.distincts {
		f.groupValues(s, table.at, table)
	}
	for _, table := range f.matches {
		f.holdValues(s, table.at, table)
	}
}

func (f *foresight) newTable(s *search, at claimConstraint) *valueTable {
	table := &valueTable{at: at, constraint: s.in.problem.claims[at.claim].constraints[at.position], ids: make(map[pools.Value]int32)}
	if _, distinct := table.constraint.(distinctAttribute); distinct {
		f.distincts = append(f.distincts, table)
	} else {
		f.matches = append(f.matches, table)
	}
	return table
}

// offers numbers what the candidates of a demand offer to its k-th constraint.
func (t *valueTable) offers(s *search, d *demand, k int) [][]int32 {
	offers := make([][]int32, len(s.in.devices))
	for i, ok := d.viable.NextSet(0); ok; i, ok = d.viable.NextSet(i + 1) {
		seen := d.b.values[k][s.in.devices[i].Shape]
		if seen.err != nil || !seen.found {
			continue
		}
		compared := t.constraint.compared(seen.value)
		for _, v := range compared {
			id, known := t.ids[v]
			if !known {
				id = t.count
				t.ids[v] = id
				t.count++
			}
			offers[i] = append(offers[i], id)
		}
		if len(compared) == 0 {
			// It may be good for standing alone.
			offers[i] = []int32{t.count}
			t.count++
		}
	}
	return offers
}

// groupValues lets the most common value of a device stand for all it has.
func (f *foresight) groupValues(s *search, at claimConstraint, t *valueTable) {
	common := make([]int, t.count)
	t.groups = slices.Repeat([]int32{-1}, len(s.in.devices))
	offers := make([][]int32, len(s.in.devices))
	differ := make([]bool, len(s.in.devices))
	f.covering(at, func(_ int, d *demand, k int) {
		for i, ids := range d.values[k] {
			if offers[i] == nil {
				offers[i] = ids
				for _, id := range ids {
					common[id]++
				}
			}
			differ[i] = differ[i] || ids != nil && !slices.Equal(ids, offers[i])
		}
	})
	for i, ids := range offers {
		for _, id := range ids {
			if g := t.groups[i]; !differ[i] && (g < 0 || common[id] > common[g]) {
				t.groups[i] = id
			}
		}
	}
}

// holdValues lists who offers what.
func (f *foresight) holdValues(s *search, at claimConstraint, t *valueTable) {
	t.holders = make([][]*bitset.BitSet, t.count)
	for v := range t.holders {
		t.holders[v] = make([]*bitset.BitSet, len(f.demands))
	}
	f.covering(at, func(n int, d *demand, k int) {
		for i, ids := range d.values[k] {
			for _, id := range ids {
				if t.holders[id][n] == nil {
					t.holders[id][n] = bitset.New(uint(len(s.in.devices)))
				}
				t.holders[id][n].Set(uint(i))
			}
		}
	})
}

// covering visits the demands that a constraint covers.
func (f *foresight) covering(at claimConstraint, visit func(n int, d *demand, k int)) {
	for n := range f.demands {
		d := &f.demands[n]
		if d.alt.claim != at.claim {
			continue
		}
		if k := slices.Index(d.alt.constraints, at.position); k >= 0 {
			visit(n, d, k)
		}
	}
}

// numbersOf are the numbers of the values that a state has, ascending.
func (t *valueTable) numbersOf(to []int32, state constraintState) []int32 {
	for _, v := range state.values {
		if id, known := t.ids[v]; known {
			to = append(to, id)
		}
	}
	slices.Sort(to)
	return to
}
