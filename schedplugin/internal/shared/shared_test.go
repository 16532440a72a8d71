// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"testing"
	"testing/synctest"
)

// A value lasts as long as the last of those who asked for it.
func TestValuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var values Values[string, *int]
		first, end := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		made := func() *int { return new(int) }
		a := values.Of(first, "a", made)
		if values.Of(second, "a", made) != a || values.Of(second, "b", made) == a {
			t.Error("values are not those of their keys")
		}
		end()
		synctest.Wait()
		third, endThird := context.WithCancel(t.Context())
		if values.Of(third, "a", made) != a || values.Len() != 2 {
			t.Errorf("%d values, or another one, while somebody has them", values.Len())
		}
		endSecond()
		endThird()
		synctest.Wait()
		if n := values.Len(); n != 0 {
			t.Errorf("%d values are kept", n)
		}
		last, endLast := context.WithCancel(t.Context())
		defer endLast()
		if values.Of(last, "a", made) == a {
			t.Error("what nobody has is not made anew")
		}
	})
}

// A key that cannot be compared has no value in common with another one.
func TestKeyThatIsNotComparable(t *testing.T) {
	var values Values[any, int]
	for want := range 2 {
		if got := values.Of(t.Context(), []string{"a"}, func() int { return want }); got != want || values.Len() != 0 {
			t.Errorf("value %d, want %d, and %d are kept", got, want, values.Len())
		}
	}
}
