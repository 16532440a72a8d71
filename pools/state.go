// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// State is a Snapshot and what allocated claims hold of it at one moment. It is the input of an allocation. It
// is immutable and safe for any number of readers. Assume, Forget and Rebase return another State, which shares
// everything that did not change. Nil and the zero value are a cluster without slices in which nothing is in
// use.
type State cluster.State

func (s *State) index() *cluster.State {
	if of := (*cluster.State)(s); of != nil && of.Snapshot() != nil {
		return of
	}
	return cluster.NewState(nothing)
}

// NewState returns the state of a snapshot in which nothing is in use.
func NewState(s *Snapshot) *State { return (*State)(cluster.NewState(s.index())) }

// Snapshot returns the snapshot of the state.
func (s *State) Snapshot() *Snapshot { return (*Snapshot)(s.index().Snapshot()) }

// Assume returns the state in which the claim holds the devices in its status.allocation. Results with admin
// access take nothing. Those with a share ID are shares with their consumed capacity, if the gate
// ConsumableCapacity is on, and all others take whole devices. Devices that the snapshot does not have are
// kept, and count once a later snapshot has them. A device may be held already: the state follows the cluster.
// The claim must not be modified afterwards.
//
// The error names the claim: it is nil, not allocated, or assumed already.
func (s *State) Assume(claim *resourceapi.ResourceClaim) (*State, error) {
	next, err := s.index().Assume(claim)
	return (*State)(next), err
}

// Forget returns the state without what Assume added for the claim of this namespace, name and UID, whatever
// its current status. The error names the claim: it is nil or holds nothing.
func (s *State) Forget(claim *resourceapi.ResourceClaim) (*State, error) {
	next, err := s.index().Forget(claim)
	return (*State)(next), err
}

// Rebase carries everything that is held over to another snapshot. If one of the snapshots was made from the
// other, it costs what changed.
func (s *State) Rebase(to *Snapshot) *State { return (*State)(s.index().Rebase(to.index())) }

// Pool returns what is in use of a pool. For pools of the snapshot that is a look-up; for
// others it is computed.
func (s *State) Pool(p Pool) PoolUsage { return PoolUsage{s.index().Pool(p.pool)} }

// Holders returns the claims that hold a device, sorted by namespace, name, UID and request. A claim with
// several shares of the device appears once per share.
func (s *State) Holders(id DeviceID) []ClaimRef {
	held := s.index().Holders(pool.DeviceID(id))
	refs := make([]ClaimRef, len(held))
	for i := range held {
		refs[i] = ClaimRef(held[i])
	}
	return refs
}

// ClaimRef identifies a claim that holds a device, and the request for it.
type ClaimRef struct {
	Namespace, Name string
	UID             types.UID
	// Request is "request" or "request/subrequest", as in the allocation result.
	Request string
}

// String returns "namespace/name".
func (r ClaimRef) String() string { return cluster.ClaimRef(r).String() }

// PoolUsage is what is in use of one pool. It is immutable and safe for concurrent use. In States that are made
// from each other it is equal (==) as long as nothing changed in the pool.
type PoolUsage struct{ usage *pool.Usage }

// Idle reports whether no device of the pool is in use.
func (u PoolUsage) Idle() bool { return u.usage.Idle() }

// InUse reports whether a device is in use exclusively.
func (u PoolUsage) InUse(d Device) bool { return u.usage.InUse(d.position()) }

// Shared reports whether shares of a device are allocated, or capacity of it is recorded as consumed.
func (u PoolUsage) Shared(d Device) bool { return u.usage.Shared(d.position()) }

// Consumed returns how much of a capacity of a device all its shares hold.
func (u PoolUsage) Consumed(d Device, capacity resourceapi.QualifiedName) resource.Quantity {
	format := d.Object().Capacity[capacity].Value.Format
	return quantity.Of(u.usage.Consumed(d.position(), capacity), format)
}

// Obtainable reports whether a whole device can be allocated beside what is in use. Nobody holds any of it, and
// its compatibility groups fit those of the devices in use. If it consumes counters, no counter of the pool
// would be negative with it (KEP-4815).
func (u PoolUsage) Obtainable(d Device) bool { return u.usage.Obtainable(d.position()) }

// CounterSets returns the counter sets of the pool by name, with what is left of them. It is negative where
// more is in use than there is.
func (u PoolUsage) CounterSets() []CounterSet {
	p := Pool{u.usage.Pool()}
	return p.counterSets(func(c pool.CounterIndex) amount.Amount { return u.usage.Left[c] })
}
