// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ending tests calls whose context ends while they run.
package ending

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// after is a context that ends once it was asked often enough whether it has.
type after struct {
	context.Context
	left atomic.Int64
}

// After returns a context that has ended from the n-th time on that it is asked for its error. It cannot be waited for. Several
// goroutines may use it.
func After(ctx context.Context, n int64) context.Context {
	c := &after{Context: ctx}
	c.left.Store(n)
	return c
}

// Err implements context.Context.
func (c *after) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}

// Anywhere makes a call again and again, with contexts that end ever later: after each of the first 60 times that the call looks at its
// context, and then in growing steps. The call has to start from the same state each time, and returns what it found as a text. It must end
// with the error of the context, or else with what it finds without an end. Anywhere returns how often the call ended early.
func Anywhere(t testing.TB, call func(context.Context) (string, error)) (ended int) {
	t.Helper()
	want, err := call(t.Context())
	if err != nil {
		t.Fatalf("without an end: %v", err)
	}
	for n := int64(0); ; n += 1 + max(0, n-60)/8 {
		got, err := call(After(t.Context(), n))
		switch {
		case errors.Is(err, context.Canceled):
			ended++
		case err != nil || got != want:
			t.Fatalf("the context ended after %d looks: found %q, %v; without an end %q", n, got, err, want)
		default:
			return ended
		}
	}
}
