package pools

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// Ledger keeps what the allocated claims of a cluster hold. It is safe for
// concurrent use: writers take turns, readers take no lock and see the state before
// or after a change, never half of one.
//
// A Fork is a ledger of its own for a what-if: it starts with everything its parent
// holds, costs nothing to make, and neither sees what happens to the other until
// Commit.
type Ledger struct {
	mu    sync.Mutex // held by writers
	state atomic.Pointer[Usage]
	// base is the state to which Revert returns. In a fork it is also the state of
	// parent on which the fork builds.
	base   *Usage
	parent *Ledger // nil if this is no fork
}

// NewLedger returns a ledger in which nothing is in use.
func NewLedger(s *Snapshot) *Ledger { return newLedger(newUsage(s), nil) }

func newLedger(base *Usage, parent *Ledger) *Ledger {
	l := &Ledger{base: base, parent: parent}
	l.state.Store(base)
	return l
}

// Allocate adds what the claim's status.allocation holds. Results with admin access
// take nothing. Those with a share ID are shares with their consumed capacity, if the
// gate ConsumableCapacity is on, and all others take whole devices. Devices which the
// snapshot does not know are kept and count as soon as a later snapshot has them. That a device is held already is
// no error: what the cluster holds is a fact. The claim must not be modified while
// it is in the ledger.
//
// The error names the claim; it is nil, not allocated, or in the ledger already.
func (l *Ledger) Allocate(claim *resourceapi.ResourceClaim) error {
	ref, err := claimRef(claim)
	if err != nil {
		return err
	}
	taken, err := holdings(l.Snapshot().gates, ref, claim)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.state.Load()
	if _, found := state.claims.Get(ref); found {
		return fmt.Errorf("claim %s (UID %q): already in the ledger", ref, ref.UID)
	}
	l.state.Store(state.allocate(ref, taken))
	return nil
}

// Release removes what Allocate added for the claim of this namespace, name and
// UID, whatever its status says now. The error names the claim; it is nil or not in
// the ledger.
func (l *Ledger) Release(claim *resourceapi.ResourceClaim) error {
	ref, err := claimRef(claim)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.state.Load()
	taken, found := state.claims.Get(ref)
	if !found {
		return fmt.Errorf("claim %s (UID %q): not in the ledger", ref, ref.UID)
	}
	l.state.Store(state.release(ref, taken))
	return nil
}

// Holder returns which claims hold a device, sorted by namespace, name, UID and
// request; a claim with several shares of the device appears once per share.
func (l *Ledger) Holder(id DeviceID) []ClaimRef {
	holders, _ := l.state.Load().held.Get(id)
	refs := make([]ClaimRef, len(holders.list))
	for i, held := range holders.list {
		refs[i] = held.ref
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}

// Usage returns what is in use now. It takes no lock and costs nothing.
func (l *Ledger) Usage() *Usage { return l.state.Load() }

// Snapshot returns the snapshot that the ledger was last based on.
func (l *Ledger) Snapshot() *Snapshot { return l.state.Load().snapshot }

// Rebase carries everything that is held over to another snapshot. Pools which it
// shares with the last one keep their usage.
func (l *Ledger) Rebase(s *Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Store(l.state.Load().rebase(s))
}

// Fork returns a ledger that starts with the state of this one, in constant time.
func (l *Ledger) Fork() *Ledger { return newLedger(l.state.Load(), l) }

// Commit makes the state of a fork, including its snapshot, that of its parent, in
// constant time. The fork lives on and builds on what it committed. It is an error
// if the parent changed since the fork or the fork's last Commit, or if the ledger
// is no fork; then nothing happens.
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
