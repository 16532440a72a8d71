// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// pinger pings a provider, one ping at a time, and stores the latest result.
type pinger struct {
	provider NodeProvider
	interval time.Duration
	timeout  time.Duration // 0: none

	// changed gets a value after the first ping, and whenever a ping succeeds after a failure or
	// fails after a success.
	changed chan struct{}

	mu     sync.Mutex
	pinged bool
	err    error // the result of the last ping
}

// errNotPinged is the failure before the first ping has ended.
var errNotPinged = fmt.Errorf("the provider did not answer a ping yet")

// failure returns why the last ping failed, or nil if it succeeded.
func (p *pinger) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pinged {
		return errNotPinged
	}
	return p.err
}

// run pings until ctx ends, and then returns nil. If the provider panics, it returns that as an
// error. It does not wait for a ping in progress when ctx ends, since that might block forever.
func (p *pinger) run(ctx context.Context) error {
	var pending chan error // of a ping that exceeded its timeout
	for {
		if pending == nil {
			pending = p.start(ctx)
		}
		done, err := p.await(ctx, pending)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // cancellation is no error
		}
		if done {
			pending = nil
		}
		if panicked := panicOf(err); panicked != nil {
			return panicked
		}
		p.set(err)
		if !sleep(ctx, p.interval) {
			return nil
		}
	}
}

// start starts a ping in the background. The channel will get its result.
func (p *pinger) start(ctx context.Context) chan error {
	result := make(chan error, 1)
	go func() {
		if p.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, p.timeout)
			defer cancel()
		}
		result <- guard("Ping", func() error { return p.provider.Ping(ctx) })
	}()
	return result
}

// await waits for a ping, up to the timeout. It returns whether the ping ended, and its error or
// that of the timeout.
func (p *pinger) await(ctx context.Context, pending chan error) (done bool, err error) {
	var expired <-chan time.Time
	if p.timeout > 0 {
		timer := time.NewTimer(p.timeout)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case err := <-pending:
		return true, err
	case <-expired:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case err := <-pending: // its context was cancelled, or it ended just in time
		return true, err
	default:
		return false, fmt.Errorf("no answer within %s", p.timeout)
	}
}

func (p *pinger) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := !p.pinged || (err == nil) != (p.err == nil)
	p.pinged, p.err = true, err
	if changed {
		select {
		case p.changed <- struct{}{}:
		default: // the previous value was not received yet
		}
	}
}

// sleep returns true after d, and false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// panicError is a recovered panic of a provider.
type panicError struct {
	method string
	value  any
	stack  []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the provider panicked in %s: %v\n%s", e.method, e.value, e.stack)
}

// guard calls a provider, and returns a panic as a panicError.
func guard(method string, call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{method, value, debug.Stack()}
		}
	}()
	return call()
}

// panicOf returns the panicError in the chain of err, or nil.
func panicOf(err error) *panicError {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return panicked
	}
	return nil
}
