// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"errors"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// Ledger holds the current State of a cluster as claims and slices come and go. It is safe for concurrent use.
// Writers take turns; readers take no lock and see the state before or after a change.
//
// A branch is a ledger for a what-if. It starts with everything that its parent holds, and costs nothing to make.
// Neither sees changes of the other until Commit.
//
// The zero value is a ledger of a cluster without slices.
type Ledger struct {
	mu    sync.Mutex // held by writers
	state atomic.Pointer[State]
	// base is the state to which Revert returns. In a branch, it is also the state of parent at the time of the
	// branch or of the last Commit.
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

// State returns the current state. It takes no lock.
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

// AssumeAll adds what the claims hold, as Assume of each does, in less time. On error, none of them is added.
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

// Rebase carries everything that is held over to another snapshot. Pools that both snapshots have keep their
// usage.
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

// Commit makes the state of a branch, including its snapshot, that of its parent, in constant time. The branch
// continues from there. It is an error if the parent changed since the branch or its last Commit, or if the
// ledger is no branch. Nothing is changed then.
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

// Revert undoes everything since the ledger was made or last committed.
func (l *Ledger) Revert() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Store(l.base)
}
