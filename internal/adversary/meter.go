package adversary

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/differential"
	"github.com/dray-project/dray/pools"
)

// Meter measures how much work cases are. It is not safe for concurrent use.
type Meter struct {
	// Budget is how many steps a case may take before its answer is undecided.
	Budget     int64
	allocators map[allocator.Features]*allocator.Allocator
}

// Measurement is what deciding a case took.
type Measurement struct {
	Steps int64
	// Time is that of Problem.Allocate alone, with selectors compiled.
	Time  time.Duration
	Class differential.Class
	// Undecided is set if the budget was spent.
	Undecided bool
}

// inOrder is first fit under another name: only with FirstFit itself does an Allocator
// answer from what it knows of other cases.
type inOrder struct{}

// Before implements allocator.Policy.
func (inOrder) Before(_, _ allocator.Candidate) bool { return false }

func (m *Meter) allocatorFor(f allocator.Features) *allocator.Allocator {
	if m.allocators == nil {
		m.allocators = make(map[allocator.Features]*allocator.Allocator)
	}
	if m.allocators[f] == nil {
		m.allocators[f] = allocator.New(allocator.Options{Features: f, Policy: inOrder{}, Budget: m.Budget})
	}
	return m.allocators[f]
}

// Measure decides a case. The error is that of a case which cannot be asked at all.
func (m *Meter) Measure(ctx context.Context, c *alloctest.Case) (Measurement, error) {
	node := nodeOf(c)
	if node == nil {
		return Measurement{}, fmt.Errorf("case %s: no node %s", c.Name, c.Node)
	}
	problem, err := m.allocatorFor(c.Features).Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		return Measurement{}, fmt.Errorf("case %s: %w", c.Name, err)
	}
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Allocate(claim); err != nil {
			return Measurement{}, fmt.Errorf("case %s: %w", c.Name, err)
		}
	}
	start := time.Now()
	outcome, err := problem.Allocate(ctx, ledger.Snapshot(), ledger.Usage(), node)
	return measured(outcome, err, time.Since(start)), nil
}

// measured leaves errors without steps: they carry no statistics.
func measured(outcome allocator.Outcome, err error, took time.Duration) Measurement {
	m := Measurement{Time: took, Class: differential.Failed}
	if err != nil {
		return m
	}
	m.Steps = outcome.Stats().Steps
	switch outcome.(type) {
	case *allocator.Assignment:
		m.Class = differential.Satisfiable
	case *allocator.Unsatisfiable:
		m.Class = differential.Unsatisfiable
	case *allocator.Undecided:
		m.Class, m.Undecided = differential.FailedOnNode, true
	}
	return m
}

func nodeOf(c *alloctest.Case) *corev1.Node {
	for _, node := range c.Nodes {
		if node.Name == c.Node {
			return node
		}
	}
	return nil
}
