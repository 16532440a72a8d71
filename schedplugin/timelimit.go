package schedplugin

import (
	"context"
	"time"
)

// limit bounds the time for one node.
func (p *Plugin) limit(ctx context.Context, c *cycle) context.Context {
	if p.settings.FilterTimeout <= 0 {
		return ctx
	}
	return &timeLimit{Context: ctx, limit: p.settings.FilterTimeout << c.patience}
}

// timeLimit is a context which is asked, and never waited for: it needs no timer, of which
// there would be one per pod and node. Nor does it need a clock for an answer that is known:
// that is given after it was asked once. It belongs to one goroutine.
type timeLimit struct {
	context.Context
	limit time.Duration
	asked bool
	end   time.Time // zero before it is asked for the second time
}

// Err implements context.Context.
func (t *timeLimit) Err() error {
	if err := t.Context.Err(); err != nil || !t.asked {
		t.asked = true
		return err
	}
	now := time.Now()
	if t.end.IsZero() {
		t.end = now.Add(t.limit)
	}
	if now.Before(t.end) {
		return nil
	}
	return context.DeadlineExceeded
}
