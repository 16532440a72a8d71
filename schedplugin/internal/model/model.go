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
	// list is the list of slices of the last observation. Nil if their objects may be modified in place.
	list   []*resourceapi.ResourceSlice
	ledger *pools.Ledger // nil before the first observation
	claims map[key]*entry
	// heldHash is the sum of the entries' hashes.
	heldHash uint64
	// freed counts the entries of the API server's allocations that were removed, or hold something else since.
	freed uint64
	// round counts the lists of all claims. An entry of an earlier round belongs to a claim that no longer
	// exists.
	round uint64
	// listedCount is how many claims with devices are in the list of this round.
	listedCount int
	// seen has the claim objects that were listed, with their entries. A nil entry is a claim without devices.
	seen map[*resourceapi.ResourceClaim]*entry
	// unlisted are claims in flight that exist in memory only, so that the manager does not list them.
	unlisted map[types.UID]*resourceapi.ResourceClaim
	// consumers has the entries by the UIDs of their consumers. It is nil before the first call of Without.
	consumers map[types.UID]map[*entry]struct{}
	// partials are the ledgers that Without returned, the last used first.
	partials []*partial

	// inPreBind are the pods in PreBind, by UID, each with a function that reports whether it was preempted there.
	inPreBind sync.Map

	changes changes
	// observed identifies the last observation for ClaimChanges.ChangedSince.
	observed any
}

// key is the namespace and name of a claim. A claim that is not listed has its UID as name.
type key struct{ namespace, name string }

func keyOf(claim *resourceapi.ResourceClaim) key { return key{claim.Namespace, claim.Name} }

// entry is an allocated claim in the ledger.
type entry struct {
	// source is the object that the manager returned. The manager may have modified it since. Nil once the
	// claim holds nothing.
	source *resourceapi.ResourceClaim
	// inLedger is the object that the ledger got. It has the allocation of that moment, and nobody modifies
	// it.
	inLedger *resourceapi.ResourceClaim
	inFlight bool
	round    uint64
	// heldHash is the hash of inLedger.
	heldHash uint64
	// consumers are the UIDs under which the entry is in Model.consumers.
	consumers []types.UID
}

// View is the state of the cluster at one moment. It is immutable.
type View struct {
	State *pools.State
	// Claims is how many claims hold devices.
	Claims int
	// HeldHash is equal for observations in which the same claims hold the same devices. For others it
	// differs almost certainly. It is valid in this process only.
	HeldHash uint64
	ledger   *pools.Ledger
	model    *Model
	freed    uint64
}

// PoolsOf lists the pools that a node reaches. It is empty if a node selector cannot be evaluated.
func (v *View) PoolsOf(node *corev1.Node) iter.Seq[pools.PoolView] {
	gathered, err := v.State.Snapshot().GatherPools(node)
	if err != nil {
		return func(func(pools.PoolView) bool) {}
	}
	return gathered.Pools()
}

// Branch returns a copy of the ledger for a what-if. Changes do not affect the view.
func (v *View) Branch() *pools.Ledger { return v.ledger.Branch() }

// WithLedger returns the view with what is in use in another ledger, which has to be a changed Branch of the view.
func (v *View) WithLedger(ledger *pools.Ledger) *View {
	as := *v
	as.State, as.ledger = ledger.State(), ledger.Branch()
	return &as
}

// New returns an empty Model of a manager. Observe fills it.
func New(dra fwk.SharedDRAManager, gates pools.Gates) *Model {
	return &Model{
		dra:      dra,
		index:    pools.NewIndex(gates),
		claims:   make(map[key]*entry),
		seen:     make(map[*resourceapi.ResourceClaim]*entry),
		unlisted: make(map[types.UID]*resourceapi.ResourceClaim),
	}
}

// Pending adds a claim in flight that is not in the API server yet. The model removes it once the manager
// says that it is no longer in flight.
func (m *Model) Pending(claim *resourceapi.ResourceClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlisted[claim.UID] = claim
}

// BeginPreBind records that a pod is in PreBind. Preempted reports whether it was preempted there.
func (m *Model) BeginPreBind(pod types.UID, preempted func() bool) { m.inPreBind.Store(pod, preempted) }

// EndPreBind records that a pod is bound, or has given up its claims.
func (m *Model) EndPreBind(pod types.UID) { m.inPreBind.Delete(pod) }

// InPreBind reports whether a pod is in PreBind, and whether it was preempted there.
func (m *Model) InPreBind(pod types.UID) (is, preempted bool) {
	known, is := m.inPreBind.Load(pod)
	return is, is && known.(func() bool)()
}

// Observe returns the present state of devices and claims. Errors are those of the manager, or name a claim
// whose allocation cannot be applied.
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
	return &View{State: m.ledger.State(), Claims: len(m.claims), HeldHash: m.heldHash, ledger: m.ledger.Branch(), model: m, freed: m.freed}, nil
}

// observeSlices updates the index of devices. The manager of a simulator returns the same list while nothing changes.
func (m *Model) observeSlices(list []*resourceapi.ResourceSlice) {
	if len(list) > 0 && len(list) == len(m.list) && &list[0] == &m.list[0] {
		return
	}
	m.rebase(m.index.Snapshot(list))
	if m.list = nil; m.claimsImmutable() {
		m.list = list
	}
}

// claimsImmutable reports whether the manager replaces changed objects, and modifies none in place.
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
