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
	// unknown is the number, from 1, that stands for no value at all. 0 is none yet.
	unknown int32
	// groups are, for a distinctAttribute, the value that stands for each device: the
	// most common of its values. -1 if there is none or alternatives see others.
	groups []int32
	// demands are those that the constraint covers.
	demands []int32
	// holders are, for a matchAttribute, the devices that offer a value, by value and
	// position in demands.
	holders []bitset.BitSet
	// last is the value that served when last looked for.
	last int32
}

// addValues makes the tables of all constraints that are not left out.
func (f *foresight) addValues(s *search) {
	f.values = s.space.tables.take(len(s.in.problem.claims))
	for c := range f.values {
		f.values[c] = s.space.table.take(len(s.in.problem.claims[c].constraints))
	}
	for d := range f.demands {
		demand := &f.demands[d]
		demand.values = s.space.offers.take(len(demand.alt.constraints))
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
	values := 0
	for _, table := range f.distincts {
		f.groupValues(s, table.at, table)
		values = max(values, int(table.count))
	}
	f.differ = s.space.set(values + len(s.in.devices))
	for _, table := range f.matches {
		f.holdValues(s, table.at, table)
	}
}

func (f *foresight) newTable(s *search, at claimConstraint) *valueTable {
	table := f.spareTable()
	table.at, table.constraint = at, s.in.problem.claims[at.claim].constraints[at.position]
	if _, distinct := table.constraint.(distinctAttribute); distinct {
		f.distincts = append(f.distincts, table)
	} else {
		f.matches = append(f.matches, table)
	}
	return table
}

// spareTable returns a table that nobody uses.
func (f *foresight) spareTable() *valueTable {
	used := len(f.matches) + len(f.distincts)
	if used == len(f.tables) {
		f.tables = append(f.tables, &valueTable{ids: make(map[pools.Value]int32)})
	}
	return f.tables[used]
}

// offers numbers what the candidates of a demand offer to its k-th constraint.
func (t *valueTable) offers(s *search, d *demand, k int) [][]int32 {
	offers := s.space.lists.take(len(s.in.devices))
	all := s.space.counts.take(int(d.viable.Count()))[:0]
	for i, ok := d.viable.NextSet(0); ok; i, ok = d.viable.NextSet(i + 1) {
		seen := d.b.values[k][i]
		if seen.err != nil || !seen.found {
			continue
		}
		first := len(all)
		all = t.number(all, t.constraint.compared(seen.value))
		offers[i] = all[first:len(all):len(all)]
	}
	return offers
}

// number appends the numbers of values. A device without any may be good for standing
// alone, or for being the first that is different: one such device at the most.
func (t *valueTable) number(to []int32, compared []pools.Value) []int32 {
	for _, v := range compared {
		id, known := t.ids[v]
		if !known {
			id = t.count
			t.ids[v] = id
			t.count++
		}
		to = append(to, id)
	}
	if len(compared) > 0 {
		return to
	}
	if _, match := t.constraint.(matchAttribute); match || t.unknown == 0 {
		t.count++
		t.unknown = t.count
	}
	return append(to, t.unknown-1)
}

// groupValues lets the most common value of a device stand for all it has.
func (f *foresight) groupValues(s *search, at claimConstraint, t *valueTable) {
	common := s.space.ints.take(int(t.count))
	t.groups = s.space.counts.take(len(s.in.devices))
	for i := range t.groups {
		t.groups[i] = -1
	}
	offers := s.space.lists.take(len(s.in.devices))
	differ := s.space.flags.take(len(s.in.devices))
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
	f.covering(at, func(n int, _ *demand, _ int) { t.demands = append(t.demands, int32(n)) })
	t.holders = s.space.sets.take(int(t.count) * len(t.demands))
	devices := uint(len(s.in.devices))
	width := int(devices+63) / 64
	words := s.space.words.take(width * len(t.holders))
	for h := range t.holders {
		t.holders[h] = *bitset.FromWithLength(devices, words[h*width:(h+1)*width:(h+1)*width])
	}
	j := 0
	f.covering(at, func(_ int, d *demand, k int) {
		for i, ids := range d.values[k] {
			for _, id := range ids {
				t.holders[int(id)*len(t.demands)+j].Set(uint(i))
			}
		}
		j++
	})
}

// holding are the devices of a demand that offer a value.
func (t *valueTable) holding(v int32, demand int32) *bitset.BitSet {
	return &t.holders[int(v)*len(t.demands)+slices.Index(t.demands, demand)]
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
