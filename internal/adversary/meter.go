package adversary

import (
	"context"
	"fmt"
	"time"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/differential"
	"github.com/dray-project/dray/internal/peer"
)

// Measurement is what deciding a case took.
type Measurement struct {
	Steps int64
	Time  time.Duration
	Class differential.Class
	// Undecided is set if the budget was spent.
	Undecided bool
}

// Measure decides a case. The error is that of a case which cannot be asked at all.
func Measure(ctx context.Context, meter *peer.Meter, c *alloctest.Case) (Measurement, error) {
	measured, err := meter.Measure(ctx, c)
	if err != nil {
		return Measurement{}, fmt.Errorf("case %s: %w", c.Name, err)
	}
	m := Measurement{Time: measured.Time, Class: differential.Failed}
	if measured.Err != nil {
		// Errors carry no statistics.
		return m, nil //nolint:nilerr // an error is an answer, only one without steps
	}
	m.Steps = measured.Outcome.Stats().Steps
	switch measured.Outcome.(type) {
	case *allocator.Assignment:
		m.Class = differential.Satisfiable
	case *allocator.Unsatisfiable:
		m.Class = differential.Unsatisfiable
	case *allocator.Undecided:
		m.Class, m.Undecided = differential.FailedOnNode, true
	}
	return m, nil
}
