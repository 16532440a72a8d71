// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"sync"
	"time"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// Meter measures the work that Dray puts into cases. It is safe for concurrent use.
type Meter struct {
	// Budget is how many steps a case may take before it is undecided. Zero is Dray's
	// default.
	Budget     int64
	allocators sync.Map // allocator.Features → *allocator.Allocator
	// memory has the compiled expressions of all of them: there is an allocator for each set of features.
	memory     *allocator.Memory
	makeMemory sync.Once
}

// Measurement is what deciding a case took.
type Measurement struct {
	// Time is that of Problem.Allocate alone.
	Time    time.Duration
	Outcome allocator.Outcome // nil if Err is set
	Err     error
}

// inOrder is first fit under another name: only with FirstFit itself does an Allocator
// answer from what it knows of other cases.
type inOrder struct{}

// Before implements allocator.Policy.
func (inOrder) Before(_, _ allocator.Candidate) bool { return false }

// Measure decides a case anew, with expressions that have been compiled before. The error
// is that of a case which cannot be asked at all.
func (m *Meter) Measure(ctx context.Context, c *alloctest.Case) (Measurement, error) {
	m.makeMemory.Do(func() { m.memory = allocator.NewMemory(allocator.MemoryOptions{}) })
	a, ok := m.allocators.Load(c.Features)
	if !ok {
		a, _ = m.allocators.LoadOrStore(c.Features, allocator.New(allocator.Options{Features: c.Features, Policy: inOrder{}, Budget: m.Budget, Memory: m.memory}))
	}
	q, err := newQuestion(a.(*allocator.Allocator), c)
	if err != nil {
		return Measurement{}, err
	}
	start := time.Now()
	outcome, err := q.ask(ctx)
	return Measurement{Time: time.Since(start), Outcome: outcome, Err: err}, nil
}
