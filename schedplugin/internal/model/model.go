// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// Model follows one SharedDRAManager. It is safe for concurrent use.
type Model struct {
	dra fwk.SharedDRAManager

	mu    sync.Mutex
	index *pools.Index
	// list are the slices of the last observation, nil if they may have been modified since.
	list   []*resourceapi.ResourceSlice
	ledger *pools.Ledger // nil before the first observation
	claims map[key]*entry
	// heldHash is the sum of what the entries hold.
	heldHash uint64
	// round counts lists of all claims. An entry of an earlier round is of a claim that is
	// gone.
	round uint64
	// listedCount is how many claims that hold devices the present list has.
	listedCount int
	// seen are the objects of claims that were listed, with what they held. Nil: nothing.
	seen map[*resourceapi.ResourceClaim]*entry
	// unlisted are claims in flight that the manager does not list.
	unlisted map[types.UID]*resourceapi.ResourceClaim
	// consumers finds entries by the pods that use them. It is made with the first of without, and nil before.
	consumers map[types.UID]map[*entry]struct{}
	// partials are the ledgers of Without, the last asked for first.
	partials []*partial

	changes changes
	// observed names the last observation to a manager that tells what changed.
	observed any
}

// key is the namespace and name of a claim, or the UID alone of one that is not listed.
type key struct{ namespace, name string }

func keyOf(claim *resourceapi.ResourceClaim) key { return key{claim.Namespace, claim.Name} }

// entry is an allocated claim in the ledger.
type entry struct {
	// source is the object which the manager returned. What it says now may have changed. Nil
	// once the claim holds nothing.
	source *resourceapi.ResourceClaim
	// inLedger is what the ledger was given. It has the allocation of that moment, and
	// nobody changes it.
	inLedger *resourceapi.ResourceClaim
	inFlight bool
	round    uint64
	// heldHash is a hash of what ledgered holds.
	heldHash uint64
	// consumers are those by which the entry is found in Model.consumers.
	consumers []types.UID
}

// View is the state of the cluster at one moment. It is immutable.
type View struct {
	State *pools.State
	// Claims is how many claims hold devices.
	Claims int
	// HeldHash is equal for observations in which the same claims hold the same devices, and almost certainly no others. It is a
	// hash for use in this process.
	HeldHash uint64
	ledger   *pools.Ledger
	model    *Model
}

// PoolsOf lists what a node reaches, nothing if its selectors cannot be evaluated.
func (v *View) PoolsOf(node *corev1.Node) iter.Seq[pools.PoolView] {
	gathered, err := v.State.Snapshot().GatherPools(node)
	if err != nil {
		return func(func(pools.PoolView) bool) {}
	}
	return gathered.Pools()
}

// Branch returns a ledger for a what-if on the view.
func (v *View) Branch() *pools.Ledger { return v.ledger.Branch() }

// WithLedger is the view with what a ledger has in use, which began as a branch of it.
func (v *View) WithLedger(ledger *pools.Ledger) *View {
	as := *v
	as.State, as.ledger = ledger.State(), ledger.Branch()
	return &as
}

// New returns a Model of what the manager knows.
func New(dra fwk.SharedDRAManager, gates pools.Gates) *Model {
	return &Model{
		dra:      dra,
		index:    pools.NewIndex(gates),
		claims:   make(map[key]*entry),
		seen:     make(map[*resourceapi.ResourceClaim]*entry),
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
	m.observeSlices(list)
	if err := m.observeClaims(); err != nil {
		return nil, err
	}
	return &View{State: m.ledger.State(), Claims: len(m.claims), HeldHash: m.heldHash, ledger: m.ledger.Branch(), model: m}, nil
}

// observeSlices looks at the list of slices. A list that stays as it is need not be read again.
func (m *Model) observeSlices(list []*resourceapi.ResourceSlice) {
	if len(list) > 0 && len(list) == len(m.list) && &list[0] == &m.list[0] {
		return
	}
	m.rebase(m.index.Snapshot(list))
	if m.list = nil; m.claimsImmutable() {
		m.list = list
	}
}

// claimsImmutable reports whether the manager replaces what changes, and modifies nothing.
func (m *Model) claimsImmutable() bool {
	_, replaces := m.dra.ResourceClaims().(ClaimChanges)
	return replaces
}

func (m *Model) rebase(s *pools.Snapshot) {
	switch {
	case m.ledger == nil:
		m.ledger = pools.NewLedger(s)
	case m.ledger.State().Snapshot() != s:
		m.ledger.Rebase(s)
		for _, p := range m.partials {
			p.ledger.Rebase(s)
		}
	}
}
