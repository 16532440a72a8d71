package pool

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bits-and-blooms/bitset"
)

// usageSerials counts the usages ever made.
var usageSerials atomic.Uint64

// Serial is a number that no other usage has, in this process.
func (u *Usage) Serial() uint64 { return u.serial }

// Idle reports whether no device of the pool is in use.
func (u *Usage) Idle() bool { return u.exclusive.None() && u.shared.None() }

// AppendKey appends bytes that tell what is in use of the devices which a view has on the
// node, by position. For a view of the whole pool, that settles also what is left of its
// counters and groups. The result depends on nothing else.
func (u *Usage) AppendKey(to []byte, v *View) []byte {
	if u.Idle() {
		return append(to, 0)
	}
	to = append(to, 1)
	if !v.Whole() {
		to = appendSome(to, u.exclusive, v)
		to = appendSome(to, u.shared, v)
	} else {
		to = appendAll(to, u.exclusive)
		to = appendAll(to, u.shared)
	}
	if u.shared.None() {
		return to
	}
	for n := range v.Here() {
		i := v.At(n)
		if !u.Shared(i) {
			continue
		}
		if to = u.appendConsumed(to, i); !u.pool.Devices[i].Multiple {
			// Shares of a device that has none are to be compared with all it has.
			to = binary.AppendUvarint(to, u.serial)
		}
	}
	return to
}

// appendAll appends the bits of all devices.
func appendAll(to []byte, set *bitset.BitSet) []byte {
	words := set.Words()
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	to = binary.AppendUvarint(to, uint64(len(words)))
	for _, word := range words {
		// Mostly the first devices are in use: small numbers.
		to = binary.AppendUvarint(to, word)
	}
	return to
}

// appendSome appends the bits of the devices on the node.
func appendSome(to []byte, set *bitset.BitSet, v *View) []byte {
	first := len(to)
	to = append(to, make([]byte, (v.Here()+7)/8)...)
	for n := range v.Here() {
		if set.Test(uint(v.At(n))) {
			to[first+n/8] |= 1 << (n % 8)
		}
	}
	return to
}

func (u *Usage) appendConsumed(to []byte, i DeviceIndex) []byte {
	consumed := u.consumed.Get(int(i))
	sorted := slices.IsSortedFunc(consumed, compareConsumptions)
	if !sorted {
		consumed = slices.Clone(consumed)
		slices.SortFunc(consumed, compareConsumptions)
	}
	to = binary.AppendUvarint(to, uint64(len(consumed)))
	for _, c := range consumed {
		to = binary.AppendUvarint(to, uint64(len(c.Capacity)))
		to = append(to, c.Capacity...)
		to = c.Amount.AppendKey(to)
	}
	return to
}

func compareConsumptions(a, b Consumption) int {
	return strings.Compare(string(a.Capacity), string(b.Capacity))
}
