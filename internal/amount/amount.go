// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package amount has an exact number for quantities: counters, capacities and
// what is left of them.
//
// A resource.Quantity allocates as soon as it leaves int64, changes its inner form
// when it is read and is not comparable with ==. An [Amount] is sixteen bytes,
// immutable, comparable, and adds in two instructions, so it can be copied into
// vectors and used as a map key.
//
// An Amount counts nano units, the finest the Kubernetes API has. The range is
// ±[Limit], about nine million times the largest int64 of units. Arithmetic is
// modulo 2^128, so adding and subtracting the same amounts in any order always
// returns to the start; no wrap occurs before 2^11 amounts at the limit are added.
package amount

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// Amount is a signed fixed-point number in units of 10^-9. The zero value is zero.
type Amount struct {
	// Two's complement: the value is hi·2^64 + lo.
	hi int64
	lo uint64
}

// Limit is 2^116 nano units, more than 8·10^25 units. Sums of up to 2^11 amounts within ±Limit are exact.
var Limit = Amount{hi: 1 << (LimitBits - 64)}

// LimitBits is the position of the only bit of Limit.
const LimitBits = 116

// Of returns hi·2^64 + lo nano units.
func Of(hi int64, lo uint64) Amount { return Amount{hi: hi, lo: lo} }

// Words returns hi and lo of the nano units hi·2^64 + lo.
func (a Amount) Words() (hi int64, lo uint64) { return a.hi, a.lo }

// Add returns a + b.
func (a Amount) Add(b Amount) Amount {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(uint64(a.hi), uint64(b.hi), carry)
	return Amount{hi: int64(hi), lo: lo}
}

// Sub returns a - b.
func (a Amount) Sub(b Amount) Amount {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(uint64(a.hi), uint64(b.hi), borrow)
	return Amount{hi: int64(hi), lo: lo}
}

// Cmp returns -1, 0 or 1 as a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int {
	if c := cmp.Compare(a.hi, b.hi); c != 0 {
		return c
	}
	return cmp.Compare(a.lo, b.lo)
}

// Floor returns the largest multiple of step that is not above a. a must not be negative, and step must be
// positive.
func (a Amount) Floor(step Amount) Amount {
	rest := a.Big()
	return a.Sub(OfBig(rest.Mod(rest, step.Big())))
}

var lowWord = new(big.Int).SetUint64(math.MaxUint64)

// OfBig returns an Amount of n nano units. The magnitude of n must be less than 2^127.
func OfBig(n *big.Int) Amount {
	return Amount{hi: new(big.Int).Rsh(n, 64).Int64(), lo: new(big.Int).And(n, lowWord).Uint64()}
}

// Big returns the number of nano units.
func (a Amount) Big() *big.Int {
	number := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return number.Add(number, new(big.Int).SetUint64(a.lo))
}

// Float returns the number of nano units, rounded.
func (a Amount) Float() float64 { return float64(a.hi)*0x1p64 + float64(a.lo) }

// Sign returns -1, 0 or 1 as a is negative, zero or positive.
func (a Amount) Sign() int {
	switch {
	case a.hi < 0:
		return -1
	case a.IsZero():
		return 0
	}
	return 1
}

// IsZero reports whether a is zero.
func (a Amount) IsZero() bool { return a == Amount{} }

// Nano returns an Amount of n nano units.
func Nano(n int64) Amount { return Amount{hi: n >> 63, lo: uint64(n)} }

// String returns the amount in units, with as many decimal places as necessary.
func (a Amount) String() string {
	text := new(big.Rat).SetFrac(a.Big(), big.NewInt(1_000_000_000)).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// AppendKey appends 16 bytes that are unique to the amount.
func (a Amount) AppendKey(to []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(to, uint64(a.hi)), a.lo)
}
