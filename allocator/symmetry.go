package allocator

import (
	"encoding/binary"
	"slices"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools"
)

// interchangeable sorts devices into classes: devices of one class cannot be told
// apart by anything in the problem, so where one fails all do. Exchanging two unused
// devices of a class turns a solution into a solution, which is why only the first
// needs to be tried.
func (in *instance) interchangeable() []int32 {
	t := traits{in: in, values: make(map[pools.Value]uint32), amounts: make(map[amount.Amount]uint32)}
	classes := make(map[string]int32)
	class := make([]int32, len(in.devices))
	for i := range in.devices {
		key := t.of(int32(i))
		id, known := classes[string(key)]
		if !known {
			id = int32(len(classes))
			classes[string(key)] = id
		}
		class[i] = id
	}
	return class
}

// traits spells out what a problem can see of a device.
type traits struct {
	in      *instance
	key     []byte
	values  map[pools.Value]uint32
	amounts map[amount.Amount]uint32
}

func (t *traits) of(i int32) []byte {
	d := &t.in.devices[i]
	t.key = t.key[:0]
	t.put(uint32(d.pool))
	t.flags(d.ConsumesCounters, d.multiple, d.inUse, d.shared)
	t.membership(i)
	t.counters(d)
	t.constrained(d)
	if d.multiple || d.shared {
		// Capacities and what is left of them: a device of its own.
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
		t.flags(d.allowed.Test(uint(i)), d.exhausted != nil && d.exhausted.Test(uint(i)), d.must(i))
	}
}

func (t *traits) counters(d *device) {
	for _, use := range d.Uses {
		t.put(uint32(use.Counter))
		t.put(number(t.amounts, use.Amount))
	}
	for _, use := range d.Groups {
		t.put(uint32(use.Set))
		for _, group := range use.Groups {
			t.key = append(append(t.key, group...), 0)
		}
		t.key = append(t.key, 1)
	}
}

func (t *traits) constrained(d *device) {
	for a := range t.in.alternatives {
		for _, values := range t.in.alternatives[a].values {
			seen := values[d.Shape]
			t.flags(seen.found, seen.value.HasScalar)
			t.put(number(t.values, seen.value.Scalar))
			t.put(uint32(len(seen.value.Set)))
			for _, v := range seen.value.Set {
				t.put(number(t.values, v))
			}
		}
	}
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
	return len(t.failed) > 0 && s.untouched(i) && slices.Contains(t.failed, s.classes[i])
}

// untouched reports whether no choice so far involves the device.
func (s *search) untouched(i int32) bool { return s.holders[i] == 0 && s.shares[i] == 0 }
