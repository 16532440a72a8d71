package pools

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
)

// Ledger keeps the State of a cluster: a pointer to one that moves as claims and slices
// come and go. It is safe for concurrent use: writers take turns, readers take no lock and
// see the state before or after a change, never half of one.
//
// A Fork is a ledger of its own for a what-if: it starts with everything its parent
// holds, costs nothing to make, and neither sees what happens to the other until
// Commit.
type Ledger cluster.Ledger

func (l *Ledger) index() *cluster.Ledger { return (*cluster.Ledger)(l) }

// NewLedger returns a ledger in which nothing is in use.
func NewLedger(s *Snapshot) *Ledger { return (*Ledger)(cluster.NewLedger(s.index())) }

// State returns what there is and what is in use now. It takes no lock and costs nothing.
func (l *Ledger) State() *State { return (*State)(l.index().State()) }

// Assume adds what the claim's status.allocation holds, as State.Assume does.
func (l *Ledger) Assume(claim *resourceapi.ResourceClaim) error { return l.index().Assume(claim) }

// Forget removes what Assume added for the claim, as State.Forget does.
func (l *Ledger) Forget(claim *resourceapi.ResourceClaim) error { return l.index().Forget(claim) }

// Rebase carries everything that is held over to another snapshot. Pools which it
// shares with the last one keep their usage.
func (l *Ledger) Rebase(s *Snapshot) { l.index().Rebase(s.index()) }

// Fork returns a ledger that starts with the state of this one, in constant time.
func (l *Ledger) Fork() *Ledger { return (*Ledger)(l.index().Fork()) }

// Commit makes the state of a fork, including its snapshot, that of its parent, in
// constant time. The fork lives on and builds on what it committed. It is an error
// if the parent changed since the fork or the fork's last Commit, or if the ledger
// is no fork; then nothing happens.
func (l *Ledger) Commit() error { return l.index().Commit() }

// Revert forgets everything since the ledger was made or last committed.
func (l *Ledger) Revert() { l.index().Revert() }
