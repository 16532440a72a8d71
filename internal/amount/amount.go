package amount

import (
	"cmp"
	"math/bits"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount is a signed fixed-point number in units of 10^-9. The zero value is zero.
type Amount struct {
	// Two's complement: the value is hi·2^64 + lo.
	hi int64
	lo uint64
}

// Limit is the largest Amount that FromQuantity returns: 2^112 nano units, more
// than 5·10^24 units.
var Limit = Amount{hi: 1 << (limitBits - 64)}

const limitBits = 112

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

// String returns a the way a quantity in decimal form is written, such as "1500m".
func (a Amount) String() string {
	q := a.Quantity(resource.DecimalSI)
	return q.String()
}
