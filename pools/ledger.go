// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"errors"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// Ledger keeps the State of a cluster: a pointer to one that moves as claims and slices
// come and go. It is safe for concurrent use: writers take turns, readers take no lock and
// see the state before or after a change, never half of one.
//
// A branch is a ledger of its own for a what-if: it starts with everything its parent
// holds, costs nothing to make, and neither sees what happens to the other until
// Commit.
//
// The zero value is a ledger of a cluster without slices.
type Ledger struct {
	mu    sync.Mutex // held by writers
	state atomic.Pointer[State]
	// base is the state to which Revert returns. In a branch it is also the state of
	// parent on which the branch builds.
	base   *State
	parent *Ledger // nil if this is no branch
}

// NewLedger returns a ledger in which nothing is in use.
func NewLedger(s *Snapshot) *Ledger { return newLedger(NewState(s), nil) }

func newLedger(base *State, parent *Ledger) *Ledger {
	l := &Ledger{base: base, parent: parent}
	l.state.Store(base)
	return l
}

// State returns what there is and what is in use now. It takes no lock and costs nothing.
func (l *Ledger) State() *State {
	if now := l.state.Load(); now != nil {
		return now
	}
	return empty
}

// empty is the State of a ledger that was not made by NewLedger.
var empty = NewState(nil)

// Assume adds what the claim's status.allocation holds, as State.Assume does.
func (l *Ledger) Assume(claim *resourceapi.ResourceClaim) error {
	return l.change(func(now *State) (*State, error) { return now.Assume(claim) })
}

// AssumeAll adds what the claims hold, as Assume of one after the other does. For many it takes less time, above all
// where nothing is held yet. On error none of them is added.
func (l *Ledger) AssumeAll(claims []*resourceapi.ResourceClaim) error {
	return l.change(func(now *State) (*State, error) {
		next, err := now.index().AssumeAll(claims)
		return (*State)(next), err
	})
}

// Forget removes what Assume added for the claim, as State.Forget does.
func (l *Ledger) Forget(claim *resourceapi.ResourceClaim) error {
	return l.change(func(now *State) (*State, error) { return now.Forget(claim) })
}

// Rebase carries everything that is held over to another snapshot. Pools which it
// shares with the last one keep their usage.
func (l *Ledger) Rebase(s *Snapshot) {
	// It cannot fail.
	_ = l.change(func(now *State) (*State, error) { return now.Rebase(s), nil })
}

func (l *Ledger) change(next func(now *State) (*State, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, err := next(l.State())
	if err == nil {
		l.state.Store(state)
	}
	return err
}

// Branch returns a ledger that starts with the state of this one, in constant time.
func (l *Ledger) Branch() *Ledger { return newLedger(l.State(), l) }

// Commit makes the state of a branch, including its snapshot, that of its parent, in
// constant time. The branch lives on and builds on what it committed. It is an error
// if the parent changed since the branch or the branch's last Commit, or if the ledger
// is no branch; then nothing happens.
func (l *Ledger) Commit() error {
	if l.parent == nil {
		return errors.New("ledger is not a branch: there is nothing to commit to")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.State()
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.parent.State() != l.base {
		return errors.New("the parent ledger changed since the branch")
	}
	l.parent.state.Store(state)
	l.base = state
	return nil
}

// Revert forgets everything since the ledger was made or last committed.
func (l *Ledger) Revert() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Store(l.base)
}
