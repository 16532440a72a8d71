package cluster

import (
	"errors"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// Ledger is that of package pools.
type Ledger struct {
	mu    sync.Mutex // held by writers
	state atomic.Pointer[State]
	// base is the state to which Revert returns. In a fork it is also the state of
	// parent on which the fork builds.
	base   *State
	parent *Ledger // nil if this is no fork
}

// NewLedger returns a ledger in which nothing is in use.
func NewLedger(s *Snapshot) *Ledger { return newLedger(NewState(s), nil) }

func newLedger(base *State, parent *Ledger) *Ledger {
	l := &Ledger{base: base, parent: parent}
	l.state.Store(base)
	return l
}

// Assume is State.Assume.
func (l *Ledger) Assume(claim *resourceapi.ResourceClaim) error {
	return l.change(func(now *State) (*State, error) { return now.Assume(claim) })
}

// Forget is State.Forget.
func (l *Ledger) Forget(claim *resourceapi.ResourceClaim) error {
	return l.change(func(now *State) (*State, error) { return now.Forget(claim) })
}

// Rebase is State.Rebase.
func (l *Ledger) Rebase(s *Snapshot) {
	// It cannot fail.
	_ = l.change(func(now *State) (*State, error) { return now.Rebase(s), nil })
}

func (l *Ledger) change(next func(now *State) (*State, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, err := next(l.state.Load())
	if err == nil {
		l.state.Store(state)
	}
	return err
}

// State returns what there is and what is in use now.
func (l *Ledger) State() *State { return l.state.Load() }

// Fork returns a ledger that starts with the state of this one, in constant time.
func (l *Ledger) Fork() *Ledger { return newLedger(l.state.Load(), l) }

// Commit makes the state of a fork that of its parent.
func (l *Ledger) Commit() error {
	if l.parent == nil {
		return errors.New("ledger is not a fork: there is nothing to commit to")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.state.Load()
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.parent.state.Load() != l.base {
		return errors.New("the parent ledger changed since the fork")
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
