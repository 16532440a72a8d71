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

// State is that of package pools.
type State struct {
	snapshot *Snapshot
	// lazy is set if what is in use is found out as pools are looked at. All that follows is
	// empty then.
	lazy *lazy
	// pools has the usage of each pool of the snapshot, by Pool.Slot.
	pools persist.Array[*pool.Usage]
	// claims has what each claim holds, by its ClaimRef without request.
	claims persist.Map[ClaimRef, []holding]
	// held has what claims hold of each device, whether or not the snapshot knows it.
	held persist.Map[pool.DeviceID, []*holding]
}

// NewState returns the state of a snapshot in which nothing is in use.
func NewState(s *Snapshot) *State {
	var u State
	return u.Rebase(s)
}

// NewUsedState returns the state of a snapshot in which what is in use of some pools is given, and nothing of the others is. It
// holds no claims.
func NewUsedState(s *Snapshot, used []*pool.Usage) *State {
	return (&State{snapshot: s}).With(used)
}

// With returns the state in which other usages of pools of the snapshot are given. Claims hold what they held. The state
// must not be lazy.
func (u *State) With(used []*pool.Usage) *State {
	next := *u
	edit := u.pools.Edit()
	for _, usage := range used {
		edit.Set(usage.Pool().Slot, usage)
	}
	next.pools = edit.Done()
	return &next
}

// Snapshot returns what there is.
func (u *State) Snapshot() *Snapshot { return u.snapshot }

// Source returns where what is in use is found out, nil if it is known already.
func (u *State) Source() Source {
	if u.lazy == nil {
		return nil
	}
	return u.lazy.source
}

// Pool returns the usage of a pool, never nil. For pools of the snapshot that is a
// look-up; for others it is computed. In a nil State nothing is in use.
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

// Assume returns the state in which the claim holds what its status.allocation says. The error names
// the claim; it is nil, not allocated, or held already.
func (u *State) Assume(claim *resourceapi.ResourceClaim) (*State, error) {
	return u.AssumeAll([]*resourceapi.ResourceClaim{claim})
}

// AssumeAll returns the state that Assume of one claim after the other leads to. Each pool is changed once. Its usage is another one even
// if the same devices are in use: who holds them is not the same.
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
			before := slices.Clip(*holders) // so that appending does not write to what others see
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

// lists makes lists that are short, several in one piece of memory.
type lists[T any] struct {
	room   []T
	pieces int
}

// maxPieces bounds what memory one list keeps that outlives its neighbours.
const maxPieces = 32

func newLists[T any](count int) lists[T] { return lists[T]{pieces: min(count, maxPieces)} }

// next returns an empty list with room for so many, which is not nil.
func (l *lists[T]) next(size int) []T {
	if l.room == nil || len(l.room) < size {
		l.room = make([]T, max(size, l.pieces))
	}
	list := l.room[:0:size]
	l.room = l.room[size:]
	return list
}

// Forget returns the state without what Assume added for the claim. The error names the claim; it is
// nil or not held.
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

// Holders returns which claims hold a device, sorted by namespace, name, UID and request; a
// claim with several shares of the device appears once per share.
func (u *State) Holders(id pool.DeviceID) []ClaimRef {
	held, _ := u.held.Get(id)
	refs := make([]ClaimRef, len(held))
	for i, h := range held {
		refs[i] = h.ref
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}

// edits are changes of the usages of pools.
type edits struct {
	of    *State
	pools []pool.Edit
	// last is the one that was found last: claims of one node often come together.
	last int
	// at finds them, where they are not a few.
	at map[pool.ID]int
}

// fewPools are faster found in a list than in a map.
const fewPools = 8

func (u *State) edit() edits { return edits{of: u} }

// set records the use of a device. Those that the snapshot does not know are passed over.
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
	if e.at == nil {
		return slices.IndexFunc(e.pools, func(edit pool.Edit) bool { return edit.Pool().ID == id })
	}
	if at, found := e.at[id]; found {
		return at
	}
	return -1
}

func (e *edits) add(edit pool.Edit) int {
	at := len(e.pools)
	e.pools = append(e.pools, edit)
	switch {
	case e.at != nil:
		e.at[edit.Pool().ID] = at
	case at == fewPools:
		e.at = make(map[pool.ID]int)
		for i := range e.pools {
			e.at[e.pools[i].Pool().ID] = i
		}
	}
	return at
}

// done returns the usages of all pools.
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

// Rebase returns what is in use over another snapshot. Pools that both have keep theirs, and
// are not even looked at if one snapshot was made from the other.
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
			edit.Set(slot, nil) // lest its usage keeps the old pool from being collected
		} else {
			edit.Set(slot, u.compute(pool))
		}
	})
	next.pools = edit.Done()
	return &next
}

// Source is where a State finds out what is in use. It must be safe for concurrent use,
// and its answers must not change.
type Source interface {
	// Pool returns the usage of a pool. It is asked once for each pool of the snapshot
	// that is looked at.
	Pool(p *pool.Pool) *pool.Usage
}

// NewLazyState returns a state that is found out pool by pool when pools are looked at. It
// is for states that come anew for each question, of which adding up all claims would cost
// more than the answer. It holds no claims, and none can be assumed.
func NewLazyState(s *Snapshot, source Source) *State {
	made := new(struct {
		state State
		lazy  lazy
	})
	made.lazy = lazy{source, newSlots[pool.Usage](s.bySlot.Len())}
	made.state = State{snapshot: s, lazy: &made.lazy}
	return &made.state
}

// lazy remembers what the source said.
type lazy struct {
	source Source
	known  slots[pool.Usage] // by Pool.Slot
}

// pool returns the usage of a pool. Of pools that are not in the snapshot it is computed
// each time.
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
