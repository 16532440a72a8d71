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

// pinger pings a provider, one ping at a time, and keeps what the last one said.
type pinger struct {
	provider NodeProvider
	interval time.Duration
	timeout  time.Duration // 0: none

	// changed gets a value when a ping succeeds after one that failed, or the other
	// way round, and after the first one.
	changed chan struct{}

	mu     sync.Mutex
	pinged bool
	err    error // what the last ping returned
}

// errNotPinged is the state before the first ping.
var errNotPinged = fmt.Errorf("the provider did not answer a ping yet")

// failure is nil if the last ping succeeded.
func (p *pinger) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pinged {
		return errNotPinged
	}
	return p.err
}

// run pings until ctx ends or the provider panics, which is the error that it
// returns. It does not wait for a ping that takes longer than ctx: its provider would
// keep the controller from ending.
func (p *pinger) run(ctx context.Context) error {
	var pending chan error // of a ping that did not end in time
	for {
		if pending == nil {
			pending = p.start(ctx)
		}
		done, err := p.await(ctx, pending)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // being told to end is no error
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

// start begins a ping, whose result the channel will hold.
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

// await tells whether the ping ended, and what the node is to be told of it.
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
	case err := <-pending: // because its context ended, or just in time
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
		default: // the one before was not looked at yet
		}
	}
}

// sleep tells whether the time passed before ctx ended.
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

// panicError is what became of a panic in a provider.
type panicError struct {
	method string
	value  any
	stack  []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the provider panicked in %s: %v\n%s", e.method, e.value, e.stack)
}

// guard calls a provider, and makes an error of its panics.
func guard(method string, call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{method, value, debug.Stack()}
		}
	}()
	return call()
}

// panicOf is the panic that an error tells of, or nil.
func panicOf(err error) *panicError {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return panicked
	}
	return nil
}
