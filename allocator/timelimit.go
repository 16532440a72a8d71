package allocator

import (
	"context"
	"time"
)

// limited returns a context for finding out about one node.
func (a *Allocator) limited(ctx context.Context) context.Context {
	if a.limit <= 0 {
		return ctx
	}
	return deadline{Context: ctx, at: time.Now().Add(a.limit)}
}

// deadline is a context which is asked, and never waited for: it needs no timer, of which
// there would be one per node.
type deadline struct {
	context.Context
	at time.Time
}

// Err implements context.Context.
func (d deadline) Err() error {
	if err := d.Context.Err(); err != nil || time.Now().Before(d.at) {
		return err
	}
	return context.DeadlineExceeded
}

// Deadline implements context.Context.
func (d deadline) Deadline() (time.Time, bool) {
	if earlier, ok := d.Context.Deadline(); ok && earlier.Before(d.at) {
		return earlier, true
	}
	return d.at, true
}
