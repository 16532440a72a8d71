// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "sync"

// lifecycle is what a controller that runs once tells of itself.
type lifecycle struct {
	ready, done chan struct{}

	mu      sync.Mutex
	started bool
	err     error
}

func newLifecycle() lifecycle {
	return lifecycle{ready: make(chan struct{}), done: make(chan struct{})}
}

// Ready is closed when the controller does its work. If it ends before, the channel stays
// open.
func (l *lifecycle) Ready() <-chan struct{} { return l.ready }

// Done is closed when Run has returned, or is about to.
func (l *lifecycle) Done() <-chan struct{} { return l.done }

// Err is the error with which Run ended. It is nil before Done is closed.
func (l *lifecycle) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// start is false if the controller was started before.
func (l *lifecycle) start() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.started
	l.started = true
	return first
}

func (l *lifecycle) isReady() { close(l.ready) }

func (l *lifecycle) end(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	close(l.done)
}
