// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/persist"
	"github.com/dray-project/dray/internal/index/pool"
)

// State is the index behind pools.State.
type State struct {
	snapshot *Snapshot
	// lazy is set if usages are read from a Source on demand. The following fields are empty then.
	lazy *lazy
	// pools are the usages of the snapshot's pools, by Pool.Slot.
	pools persist.Array[*pool.Usage]
	// claims are what each claim holds, by its ClaimRef without the request.
	claims persist.Map[ClaimRef, []holding]
	// held are what claims hold of each device, also of devices that the snapshot does not have.
	held persist.Map[pool.DeviceID, []*holding]
}

// NewState returns the state of a snapshot in which nothing is in use.
func NewState(s *Snapshot) *State {
	var u State
	return u.Rebase(s)
}

// NewUsedState returns the state of a snapshot with the given usages of some pools, and nothing in use of the
// others. It has no claims.
func NewUsedState(s *Snapshot, used []*pool.Usage) *State {
	return (&State{snapshot: s}).With(used)
}

// With returns the state with other usages of some pools. What claims hold stays the same. The state must not
// be lazy.
func (u *State) With(used []*pool.Usage) *State {
	next := *u
	edit := u.pools.Edit()
	for _, usage := range used {
		edit.Set(usage.Pool().Slot, usage)
	}
	next.pools = edit.Done()
	return &next
}

// Snapshot returns the snapshot of the state.
func (u *State) Snapshot() *Snapshot { return u.snapshot }

// Source returns the source of a lazy state, nil for other states.
func (u *State) Source() Source {
	if u.lazy == nil {
		return nil
	}
	return u.lazy.source
}

// Pool returns the usage of a pool, never nil. For pools of the snapshot that is a look-up; for others it is
// computed. In a nil State nothing is in use.
func (u *State) Pool(p *pool.Pool) *pool.Usage {
	if u == nil {
		return p.Idle()
	}
	if u.lazy != nil {
		return u.lazy.pool(p)
	}
	if usage := u.pools.Get(p.Slot); usage != nil && usage.Pool() == p {
		return usage
	}
	return u.compute(p)
}

func (u *State) compute(p *pool.Pool) *pool.Usage {
	if u.held.IsEmpty() {
		return p.Idle()
	}
	return pool.NewUsage(p, pool.Sum{}, func(i pool.DeviceIndex) pool.Use { return u.use(p.DeviceID(i)) })
}

func (u *State) use(id pool.DeviceID) pool.Use {
	held, _ := u.held.Get(id)
	return useOf(held)
}

// Assume returns the state in which the claim holds the devices in its status.allocation. The error names the
// claim: it is nil, not allocated, or assumed already.
func (u *State) Assume(claim *resourceapi.ResourceClaim) (*State, error) {
	return u.AssumeAll([]*resourceapi.ResourceClaim{claim})
}

// AssumeAll returns the state after Assume of each claim. It edits each pool once. A pool gets a new Usage even
// if the same devices are in use, as the holders differ.
func (u *State) AssumeAll(all []*resourceapi.ResourceClaim) (*State, error) {
	claims, held, pools := u.claims.Edit(), u.held.Edit(), u.edit()
	takes, holds := newLists[holding](len(all)), newLists[*holding](len(all))
	for _, claim := range all {
		ref, err := claimRef(claim)
		if err != nil {
			return nil, err
		}
		taken, err := holdings(u.snapshot.gates, ref, claim, takes.next)
		if err != nil {
			return nil, err
		}
		known := claims.At(ref)
		if *known != nil {
			return nil, fmt.Errorf("claim %s (UID %q): already in the ledger", ref, ref.UID)
		}
		*known = taken
		for i := range taken {
			holders := held.At(taken[i].device)
			before := slices.Clip(*holders) // Clip makes append copy, as other states share the list
			if before == nil {
				before = holds.next(1)
			}
			*holders = append(before, &taken[i])
			pools.set(taken[i].device, useOf(*holders))
		}
	}
	next := *u
	next.claims, next.held, next.pools = claims.Done(), held.Done(), pools.done()
	return &next, nil
}

// lists allocates short lists, several in one block.
type lists[T any] struct {
	block  []T
	pieces int
}

// maxPieces bounds the block that one remaining list keeps alive.
const maxPieces = 32

func newLists[T any](count int) lists[T] { return lists[T]{pieces: min(count, maxPieces)} }

// next returns an empty list of a capacity. It is not nil.
func (l *lists[T]) next(size int) []T {
	if l.block == nil || len(l.block) < size {
		l.block = make([]T, max(size, l.pieces))
	}
	list := l.block[:0:size]
	l.block = l.block[size:]
	return list
}

// Forget returns the state without what Assume added for the claim. The error names the claim: it is nil or not
// assumed.
func (u *State) Forget(claim *resourceapi.ResourceClaim) (*State, error) {
	ref, err := claimRef(claim)
	if err != nil {
		return nil, err
	}
	taken, found := u.claims.Get(ref)
	if !found {
		return nil, fmt.Errorf("claim %s (UID %q): not in the ledger", ref, ref.UID)
	}
	next := *u
	next.claims = u.claims.Without(ref)
	pools := u.edit()
	for _, h := range taken {
		held, _ := next.held.Get(h.device)
		left := slices.DeleteFunc(slices.Clone(held), func(h *holding) bool { return h.of(ref) })
		if len(left) > 0 {
			next.held = next.held.With(h.device, left)
		} else {
			next.held = next.held.Without(h.device)
		}
		pools.set(h.device, useOf(left))
	}
	next.pools = pools.done()
	return &next, nil
}

// Holders returns the claims that hold a device, sorted by namespace, name, UID and request. A claim with
// several shares of the device appears once per share.
func (u *State) Holders(id pool.DeviceID) []ClaimRef {
	held, _ := u.held.Get(id)
	refs := make([]ClaimRef, len(held))
	for i, h := range held {
		refs[i] = h.ref
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}

// edits collects changes of the usages of pools.
type edits struct {
	of    *State
	pools []pool.Edit
	// last is the position in pools of the last find: claims on one node often come together.
	last int
	// byID are positions in pools. It is nil as long as there are few.
	byID map[pool.ID]int
}

// fewPools is how many pools are faster to find in a list than in a map.
const fewPools = 8

func (u *State) edit() edits { return edits{of: u} }

// set records the use of a device. Devices that the snapshot does not have are ignored.
func (e *edits) set(id pool.DeviceID, use pool.Use) {
	at := e.find(id.PoolID())
	if at < 0 {
		known := e.of.snapshot.Pool(id.PoolID())
		if known == nil {
			return
		}
		at = e.add(e.of.Pool(known).Edit())
	}
	e.last = at
	e.pools[at].Set(e.pools[at].Pool().Lookup(id.Device), use)
}

func (e *edits) find(id pool.ID) int {
	if e.last < len(e.pools) && e.pools[e.last].Pool().ID == id {
		return e.last
	}
	if e.byID == nil {
		return slices.IndexFunc(e.pools, func(edit pool.Edit) bool { return edit.Pool().ID == id })
	}
	if at, found := e.byID[id]; found {
		return at
	}
	return -1
}

func (e *edits) add(edit pool.Edit) int {
	at := len(e.pools)
	e.pools = append(e.pools, edit)
	switch {
	case e.byID != nil:
		e.byID[edit.Pool().ID] = at
	case at == fewPools:
		e.byID = make(map[pool.ID]int)
		for i := range e.pools {
			e.byID[e.pools[i].Pool().ID] = i
		}
	}
	return at
}

// done returns the usages of all pools, with the changes.
func (e *edits) done() persist.Array[*pool.Usage] {
	if len(e.pools) == 0 {
		return e.of.pools
	}
	edit := e.of.pools.Edit()
	for _, changed := range e.pools {
		edit.Set(changed.Pool().Slot, changed.Done())
	}
	return edit.Done()
}

// Rebase returns the same holdings with another snapshot. Pools that both snapshots have keep their usages.
// They are not even visited if one snapshot was made from the other.
func (u *State) Rebase(s *Snapshot) *State {
	next := *u
	next.snapshot = s
	var known persist.Array[*pool.Pool]
	if u.snapshot != nil {
		known = u.snapshot.bySlot
	}
	edit := u.pools.Edit()
	persist.Differences(known, s.bySlot, func(slot int, _, pool *pool.Pool) {
		if pool == nil {
			edit.Set(slot, nil) // so that the usage does not keep the old pool alive
		} else {
			edit.Set(slot, u.compute(pool))
		}
	})
	next.pools = edit.Done()
	return &next
}

// Source provides the usages of a lazy State. It must be safe for concurrent use, and its answers must not
// change.
type Source interface {
	// Pool returns the usage of a pool. Each pool of the snapshot is asked for once, mostly when it is first
	// looked at.
	Pool(p *pool.Pool) *pool.Usage
}

// NewLazyState returns a state whose usages are read from a source when pools are looked at. It is for callers
// with a new state for each question, where adding up all claims would cost more than the answer. It has no
// claims, and none can be assumed.
func NewLazyState(s *Snapshot, source Source) *State {
	made := new(struct {
		state State
		lazy  lazy
	})
	made.lazy = lazy{source, newSlots[pool.Usage](s.bySlot.Len())}
	made.state = State{snapshot: s, lazy: &made.lazy}
	return &made.state
}

// lazy caches the answers of a source.
type lazy struct {
	source Source
	known  slots[pool.Usage] // by Pool.Slot
}

// pool returns the usage of a pool. For pools beyond the slots of the snapshot it is not cached.
func (u *lazy) pool(p *pool.Pool) *pool.Usage {
	if p.Slot >= len(u.known)*chunkSize {
		return u.source.Pool(p)
	}
	at := u.known.at(p.Slot)
	if known := at.Load(); known != nil && known.Pool() == p {
		return known
	}
	computed := u.source.Pool(p)
	at.CompareAndSwap(nil, computed)
	return computed
}
