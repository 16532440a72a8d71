// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package amount_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/amount"
)

// Floor is what division of large numbers says.
func TestFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) amount.Amount {
			hi := rapid.Int64Range(0, 1<<52).Draw(t, name+" hi")
			if rapid.Bool().Draw(t, name+" is small") {
				hi = 0
			}
			return amount.Of(hi, rapid.Uint64().Draw(t, name+" lo"))
		}
		a, step := draw("a"), draw("step")
		if step.IsZero() {
			step = amount.Nano(1)
		}
		number := func(a amount.Amount) *big.Int {
			hi, lo := a.Words()
			n := new(big.Int).Lsh(big.NewInt(hi), 64)
			return n.Add(n, new(big.Int).SetUint64(lo))
		}
		want := new(big.Int).Div(number(a), number(step))
		want.Mul(want, number(step))
		if got := number(a.Floor(step)); got.Cmp(want) != 0 {
			t.Fatalf("%s in steps of %s: got %s, want %s", a, step, got, want)
		}
	})
}
