// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/quantity"
)

// dec is q's exact value, independent of Quantity's own arithmetic.
func dec(q resource.Quantity) *inf.Dec {
	own := q.DeepCopy()
	return own.AsDec()
}

// quantities draws quantities of all magnitudes that are exact in an Amount, in
// all inner forms.
func quantities() *rapid.Generator[resource.Quantity] {
	return rapid.Custom(func(t *rapid.T) resource.Quantity {
		format := rapid.SampledFrom([]resource.Format{resource.DecimalSI, resource.BinarySI, resource.DecimalExponent}).Draw(t, "format")
		unscaled := rapid.Int64().Draw(t, "unscaled")
		scale := rapid.IntRange(-5, 9).Draw(t, "scale")
		if rapid.Bool().Draw(t, "decimal") {
			return *resource.NewDecimalQuantity(*inf.NewDec(unscaled, inf.Scale(scale)), format)
		}
		q := resource.NewScaledQuantity(unscaled, resource.Scale(-scale))
		q.Format = format
		return *q
	})
}

func TestArithmeticAgreesWithDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := quantities().Draw(t, "x"), quantities().Draw(t, "y")
		a, b := quantity.Amount(x), quantity.Amount(y)
		if got, want := a.Cmp(b), dec(x).Cmp(dec(y)); got != want {
			t.Fatalf("Cmp = %d, want %d", got, want)
		}
		if got, want := a == b, dec(x).Cmp(dec(y)) == 0; got != want {
			t.Fatalf("== is %t, want %t", got, want)
		}
		if got, want := a.Sign(), dec(x).Sign(); got != want {
			t.Fatalf("Sign = %d, want %d", got, want)
		}
		if got, want := a.IsZero(), dec(x).Sign() == 0; got != want {
			t.Fatalf("IsZero = %t, want %t", got, want)
		}
		equal(t, a.Add(b), new(inf.Dec).Add(dec(x), dec(y)))
		equal(t, a.Sub(b), new(inf.Dec).Sub(dec(x), dec(y)))
		if a.Add(b).Sub(a) != b {
			t.Fatal("adding and subtracting does not return to the start")
		}
	})
}

func equal(t *rapid.T, got amount.Amount, want *inf.Dec) {
	t.Helper()
	if q := quantity.Of(got, resource.DecimalSI); dec(q).Cmp(want) != 0 {
		t.Fatalf("got %s, want %s", q.String(), want)
	}
}

func TestQuantityAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := quantities().Draw(t, "q")
		before := q.DeepCopy()
		a := quantity.Amount(q)
		back := quantity.Of(a, q.Format)
		if back.Cmp(q) != 0 || back.Format != q.Format || quantity.Amount(back) != a {
			t.Fatalf("%s comes back as %s", q.String(), back.String())
		}
		if before.Cmp(q) != 0 {
			t.Fatal("the quantity was modified")
		}
	})
}

func TestParsedQuantities(t *testing.T) {
	for _, text := range []string{
		"0", "1", "-1", "1500m", "-1500m", "1n", "0.1n", "4Gi", "1.5Gi", "8Ei", "100E", "1e24", "-1e24", "123456789.123456789",
	} {
		q := resource.MustParse(text)
		a := quantity.Amount(q)
		if got := quantity.Of(a, q.Format); got.Cmp(q) != 0 {
			t.Errorf("%s: got %s", text, got.String())
		}
	}
}

func TestExtremes(t *testing.T) {
	negative := amount.Amount{}.Sub(amount.Limit)
	zero := resource.MustParse("0e2000000000")
	huge := inf.NewDecBig(new(big.Int).Exp(big.NewInt(10), big.NewInt(40), nil), 0)
	for name, test := range map[string]struct {
		q    *resource.Quantity
		want amount.Amount
	}{
		"largest int64":        {resource.NewQuantity(math.MaxInt64, ""), quantity.Amount(resource.MustParse("9223372036854775807"))},
		"smallest int64":       {resource.NewQuantity(math.MinInt64, ""), quantity.Amount(resource.MustParse("-9223372036854775808"))},
		"0·10^2000000000":      {&zero, amount.Amount{}},
		"10^40":                {resource.NewDecimalQuantity(*huge, ""), amount.Limit},
		"-10^40":               {resource.NewDecimalQuantity(*new(inf.Dec).Neg(huge), ""), negative},
		"9·10^25":              {resource.NewDecimalQuantity(*inf.NewDec(9, -25), ""), amount.Limit},
		"10^2000000000":        {resource.NewScaledQuantity(1, 2_000_000_000), amount.Limit},
		"-10^2000000000":       {resource.NewScaledQuantity(-1, 2_000_000_000), negative},
		"10^-2000000000":       {resource.NewDecimalQuantity(*inf.NewDec(1, 2_000_000_000), ""), nano(1)},
		"-10^-2000000000":      {resource.NewDecimalQuantity(*inf.NewDec(-1, 2_000_000_000), ""), nano(-1)},
		"finer than nano":      {resource.NewDecimalQuantity(*inf.NewDec(15, 10), ""), nano(2)},
		"finer than nano, < 0": {resource.NewDecimalQuantity(*inf.NewDec(-15, 10), ""), nano(-2)},
	} {
		start := time.Now()
		if got := quantity.Amount(*test.q); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %s", name, took)
		}
	}
}

func nano(n int64) amount.Amount {
	return quantity.Amount(*resource.NewScaledQuantity(n, resource.Nano))
}

func BenchmarkFromQuantity(b *testing.B) {
	for _, text := range []string{"40Gi", "500m"} {
		q := resource.MustParse(text)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				quantity.Amount(q)
			}
		})
	}
}
