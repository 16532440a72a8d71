package allocator

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// addClasses sorts devices into classes, the first time that they are needed: nothing in the problem can tell devices of one
// class apart but the component they belong to. Exchanging two of a class and a component,
// or two components that look the same device by device, turns a solution into a solution.
func (f *foresight) addClasses(s *search) {
	if f.classes != nil {
		return
	}
	if f.known.amounts == nil {
		f.known.amounts = make(map[amount.Amount]uint32)
	}
	t := traits{in: s.in, foresight: f, amounts: f.known.amounts, key: f.known.key, views: f.known.views[:0]}
	t.addViews()
	f.classes = s.space.counts.take(len(s.in.devices))
	for i := range s.in.devices {
		f.classes[i] = f.known.number(t.of(int32(i)))
	}
	f.known.key, f.known.views = t.key, t.views
}

// keys numbers keys in the order in which they come.
type keys struct {
	text   []byte // all of them
	ends   []int
	byHash map[uint64]int32
	// amounts, key and views are room to work in.
	amounts map[amount.Amount]uint32
	key     []byte
	views   []demandView
}

func (k *keys) clear() {
	k.text, k.ends = k.text[:0], k.ends[:0]
	clear(k.byHash)
	clear(k.amounts)
}

var hashSeed = maphash.MakeSeed()

func (k *keys) number(key []byte) int32 {
	if k.byHash == nil {
		k.byHash = make(map[uint64]int32)
	}
	hash := maphash.Bytes(hashSeed, key)
	for {
		n, known := k.byHash[hash]
		if !known {
			n = int32(len(k.ends))
			k.byHash[hash] = n
			k.text = append(k.text, key...)
			k.ends = append(k.ends, len(k.text))
			return n
		}
		if bytes.Equal(k.at(n), key) {
			return n
		}
		hash++ // two keys of one hash
	}
}

func (k *keys) at(n int32) []byte {
	if n == 0 {
		return k.text[:k.ends[0]]
	}
	return k.text[k.ends[n-1]:k.ends[n]]
}

// traits spells out what a problem can see of a device.
type traits struct {
	in        *instance
	foresight *foresight
	key       []byte
	amounts   map[amount.Amount]uint32
	views     []demandView
}

func (t *traits) of(i int32) []byte {
	d := &t.in.devices[i]
	t.key = t.key[:0]
	t.flags(d.ConsumesCounters, d.multiple, t.in.inUse.Test(uint(i)), t.in.isShared(i), d.ConsumesCounters && t.in.pools[d.pool].used.Overdrawn)
	t.membership(i)
	t.counters(i)
	t.constrained(i)
	if d.multiple {
		t.capacities(i)
	}
	if t.in.literal && t.ordered(i) {
		t.put(uint32(i))
	}
	return t.key
}

func (t *traits) put(v uint32) { t.key = binary.LittleEndian.AppendUint32(t.key, v) }

func (t *traits) flags(flags ...bool) {
	for _, f := range flags {
		b := byte(0)
		if f {
			b = 1
		}
		t.key = append(t.key, b)
	}
}

func (t *traits) membership(i int32) {
	for f := range t.in.domains {
		d := &t.in.domains[f]
		t.flags(d.allowed.Test(uint(i)), d.exhausted != nil && d.exhausted.Test(uint(i)), d.must(i), d.bad[i] != nil)
	}
}

// counters are named by their place in the component.
func (t *traits) counters(i int32) {
	d, c := &t.in.devices[i], t.foresight.componentOf[i]
	if c < 0 {
		return
	}
	component := &t.foresight.components[c]
	t.put(uint32(len(d.Uses)))
	for _, use := range d.Uses {
		t.put(component.counterOf(t.in.pools[d.pool].pool, use.Counter))
		t.put(number(t.amounts, use.Amount))
	}
	for _, use := range d.Groups {
		t.put(component.setOf(use.Set))
		for _, group := range use.Groups {
			t.key = append(append(t.key, group...), 0)
		}
		t.key = append(t.key, 1)
	}
}

// constrained spells out what a device offers to constraints. Those that compare the same
// attribute of the same candidates see the same.
func (t *traits) constrained(i int32) {
	for _, at := range t.views {
		demand := &t.foresight.demands[at.demand]
		offers := demand.values[at.position]
		t.flags(demand.b.values[at.position][i].err != nil)
		t.put(uint32(len(offers[i])))
		for _, id := range offers[i] {
			t.put(uint32(id))
		}
	}
}

// demandView is a constraint, by position, as a demand sees it.
type demandView struct{ demand, position int }

// addViews lists the constraints, one of those that see the same.
func (t *traits) addViews() {
	for d := range t.foresight.demands {
		for k, offers := range t.foresight.demands[d].values {
			at := demandView{d, k}
			if len(offers) > 0 && !slices.ContainsFunc(t.views, func(other demandView) bool { return t.seeTheSame(at, other) }) {
				t.views = append(t.views, at)
			}
		}
	}
}

func (t *traits) seeTheSame(v, w demandView) bool {
	a, b := &t.foresight.demands[v.demand], &t.foresight.demands[w.demand]
	return a.b.domain == b.b.domain && &a.b.values[v.position][0] == &b.b.values[w.position][0] &&
		t.constraint(v) == t.constraint(w)
}

func (t *traits) constraint(v demandView) constraint {
	alt := t.foresight.demands[v.demand].alt
	return t.in.problem.claims[alt.claim].constraints[alt.constraints[v.position]]
}

// capacities are what there is, what shares in use have, and what new ones would take.
func (t *traits) capacities(i int32) {
	d := &t.in.devices[i]
	for f := range t.in.domains {
		use := t.in.domains[f].uses[i]
		t.flags(use != nil)
		if use == nil {
			continue
		}
		t.put(uint32(len(use.parts)))
		for _, part := range use.parts {
			t.put(number(t.amounts, part.taken))
			t.put(number(t.amounts, part.total))
			t.put(number(t.amounts, t.in.pools[d.pool].used.Consumed(d.index, part.name)))
		}
	}
}

// ordered reports whether the place of a device among those that all must be had matters:
// if an earlier one is taken, there is no error at a later one.
func (t *traits) ordered(i int32) bool {
	for a := range t.in.alternatives {
		if t.foresight.errs[a] && t.in.problem.byID[a].all && t.in.alternatives[a].domain.must(i) {
			return true
		}
	}
	return false
}

// number gives equal values equal numbers.
func number[T comparable](numbers map[T]uint32, v T) uint32 {
	n, known := numbers[v]
	if !known {
		n = uint32(len(numbers))
		numbers[v] = n
	}
	return n
}

// classSet remembers for one slot which interchangeable devices failed.
type classSet struct{ failed []likeness }

// likeness is equal for devices that are interchangeable now.
type likeness struct{ class, component int32 }

func (s *search) likeness(i int32) likeness {
	s.foresight.addClasses(s)
	return likeness{s.foresight.classes[i], s.foresight.componentOf[i]}
}

func (t *classSet) add(s *search, i int32) {
	if s.untouched(i) {
		t.failed = append(t.failed, s.likeness(i))
	}
}

func (t *classSet) has(s *search, i int32) bool {
	return len(t.failed) > 0 && s.untouched(i) && slices.Contains(t.failed, s.likeness(i))
}

// untouched reports whether no choice so far involves the device.
func (s *search) untouched(i int32) bool { return s.holders[i] == 0 && s.shares[i] == 0 }
