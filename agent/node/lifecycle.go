// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "sync"

// lifecycle has the channels and the error that a controller shows to its callers. A controller
// runs once.
type lifecycle struct {
	ready, done chan struct{}

	mu      sync.Mutex
	started bool
	err     error
}

func newLifecycle() lifecycle {
	return lifecycle{ready: make(chan struct{}), done: make(chan struct{})}
}

// Ready returns a channel that is closed when the controller has started. If it ends before, the
// channel stays open.
func (l *lifecycle) Ready() <-chan struct{} { return l.ready }

// Done returns a channel that is closed when Run has returned, or is about to.
func (l *lifecycle) Done() <-chan struct{} { return l.done }

// Err returns the error with which Run ended. It is nil before Done is closed.
func (l *lifecycle) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// start returns false if the controller was started before.
func (l *lifecycle) start() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.started
	l.started = true
	return first
}

func (l *lifecycle) markReady() { close(l.ready) }

func (l *lifecycle) end(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	close(l.done)
}
