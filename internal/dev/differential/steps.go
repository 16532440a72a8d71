// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"sync/atomic"
)

// withSteps returns a context that is past its deadline as soon as somebody has asked so
// many times whether it is. Zero is no limit.
func withSteps(ctx context.Context, steps int64) context.Context {
	if steps == 0 {
		return ctx
	}
	s := &stepContext{Context: ctx}
	s.left.Store(steps)
	return s
}

type stepContext struct {
	context.Context
	left atomic.Int64
}

// Err implements context.Context.
func (s *stepContext) Err() error {
	if s.left.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return s.Context.Err()
}
