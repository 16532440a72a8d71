// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quantity converts between quantities of the Kubernetes API and amounts.
package quantity

import (
	"math/big"
	"math/bits"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
)

// nano is the number of decimal places of an Amount.
const nano = 9

// nanoPerUnit is how many of an Amount's units make one of a Quantity's.
const nanoPerUnit = 1_000_000_000

// Amount converts q. The result is exact if q has no more than nine decimal places, which holds for every
// parsed quantity, and lies within ±amount.Limit, see InRange. Finer values are rounded away from zero, as
// parsing does. Larger values become the limit or its negative. The time does not depend on the exponent of q.
// q is not modified.
func Amount(q resource.Quantity) amount.Amount {
	// Quantity multiplies step by step up to its exponent, even for zero.
	if q.IsZero() {
		return amount.Amount{}
	}
	if units, ok := q.AsInt64(); ok {
		return fromUnits(units)
	}
	// AsDec returns a Dec that q may share with the caller: read only.
	return fromDec(q.AsDec())
}

// InRange reports whether a quantity is within ±amount.Limit, so that its Amount is exact except for rounding
// to nano units.
func InRange(q resource.Quantity) bool {
	a := Amount(q)
	return a.Cmp(amount.Limit) < 0 && a.Cmp(amount.Amount{}.Sub(amount.Limit)) > 0
}

func fromUnits(units int64) amount.Amount {
	hi, lo := bits.Mul64(uint64(units), nanoPerUnit)
	if units < 0 {
		hi -= nanoPerUnit // uint64(units) added 2^64 to the units
	}
	return amount.Of(int64(hi), lo)
}

func fromDec(d *inf.Dec) amount.Amount {
	sign := d.Sign()
	scale, digits := int64(d.Scale()), decimalDigits(d.UnscaledBig())
	switch {
	case digits-scale > 27:
		// At least 10^26 units, so it is out of range, whatever the exponent.
		return signed(amount.Limit, sign)
	case digits-scale < -nano:
		return signed(amount.Nano(1), sign)
	}
	unscaled := new(inf.Dec).Round(d, nano, inf.RoundUp).UnscaledBig()
	if unscaled.BitLen() > amount.LimitBits {
		return signed(amount.Limit, sign)
	}
	return amount.OfBig(unscaled)
}

// decimalDigits returns the number of decimal digits of i or one more.
func decimalDigits(i *big.Int) int64 {
	return int64(i.BitLen())*30103/100000 + 1
}

func signed(a amount.Amount, sign int) amount.Amount {
	if sign < 0 {
		return amount.Amount{}.Sub(a)
	}
	return a
}

// Of returns an amount as a quantity of the format. Converting it back gives the same amount.
func Of(a amount.Amount, format resource.Format) resource.Quantity {
	high, lo := signed(a, a.Sign()).Words()
	hi := uint64(high)
	if hi < nanoPerUnit {
		if units, rest := bits.Div64(hi, lo, nanoPerUnit); rest == 0 && units < 1<<63 {
			return *resource.NewQuantity(int64(units)*int64(a.Sign()), format)
		}
	}
	return *resource.NewDecimalQuantity(*inf.NewDecBig(a.Big(), nano), format)
}
