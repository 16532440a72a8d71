package model

import (
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// Model follows one SharedDRAManager. It is safe for concurrent use.
type Model struct {
	dra fwk.SharedDRAManager

	mu     sync.Mutex
	index  *pools.Index
	ledger *pools.Ledger // nil before the first observation
	claims map[key]*entry
	// round counts lists of all claims. An entry of an earlier round is of a claim that is
	// gone.
	round uint64
	// unlisted are claims in flight that the manager does not list.
	unlisted map[types.UID]*resourceapi.ResourceClaim

	changes changes
}

// key is the namespace and name of a claim, or the UID alone of one that is not listed.
type key struct{ namespace, name string }

func keyOf(claim *resourceapi.ResourceClaim) key { return key{claim.Namespace, claim.Name} }

// entry is an allocated claim in the ledger.
type entry struct {
	// source is the object which the manager returned, ledgered what the ledger was given:
	// the same, unless the allocation is in flight or nothing else changed since.
	source, ledgered *resourceapi.ResourceClaim
	inFlight         bool
	round            uint64
}

// View is the state of the cluster at one moment. It is immutable.
type View struct {
	Snapshot *pools.Snapshot
	Usage    *pools.Usage
	// Claims is how many claims hold devices.
	Claims int
	ledger *pools.Ledger
}

// Fork returns a ledger for a what-if on the view.
func (v *View) Fork() *pools.Ledger { return v.ledger.Fork() }

// New returns a Model of what the manager knows.
func New(dra fwk.SharedDRAManager, gates pools.Gates) *Model {
	return &Model{
		dra:      dra,
		index:    pools.NewIndex(gates),
		claims:   make(map[key]*entry),
		unlisted: make(map[types.UID]*resourceapi.ResourceClaim),
	}
}

// Pending tells of a claim whose allocation was signalled to the manager, and which is not
// in the API server yet. The manager says when it is no longer in flight.
func (m *Model) Pending(claim *resourceapi.ResourceClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlisted[claim.UID] = claim
}

// Observe returns the present state of the cluster. Errors are the manager's, or name a
// claim that contradicts itself.
func (m *Model) Observe() (*View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, err := m.dra.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list resource slices: %w", err)
	}
	m.rebase(m.index.Snapshot(list))
	if err := m.observeClaims(); err != nil {
		return nil, err
	}
	return &View{Snapshot: m.ledger.Snapshot(), Usage: m.ledger.Usage(), Claims: len(m.claims), ledger: m.ledger.Fork()}, nil
}

func (m *Model) rebase(s *pools.Snapshot) {
	switch {
	case m.ledger == nil:
		m.ledger = pools.NewLedger(s)
	case m.ledger.Snapshot() != s:
		m.ledger.Rebase(s)
	}
}
