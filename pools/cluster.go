package pools

import (
	"github.com/dray-project/dray/pools/internal/persist"
)

// Usage is what is in use of all pools at one moment. It is immutable and safe for
// any number of readers; later changes of the ledger do not show in it.
type Usage struct {
	snapshot *Snapshot
	// pools has the usage of each pool of the snapshot, by Pool.slot.
	pools persist.Array[*PoolUsage]
	// claims has what each claim in the ledger holds, by its ClaimRef without request.
	claims persist.Map[ClaimRef, []holding]
	// held has the holders of each device, whether or not the snapshot knows it.
	held persist.Map[DeviceID, holders]
}

func newUsage(s *Snapshot) *Usage {
	var u Usage
	return u.rebase(s)
}

// Snapshot returns the snapshot to which the Usage belongs.
func (u *Usage) Snapshot() *Snapshot { return u.snapshot }

// Pool returns the usage of a pool, never nil. For pools of the snapshot that the
// ledger was last based on, that is a look-up; for others it is computed.
func (u *Usage) Pool(p *Pool) *PoolUsage {
	if usage := u.pools.Get(p.slot); usage != nil && usage.pool == p {
		return usage
	}
	return u.compute(p)
}

func (u *Usage) compute(p *Pool) *PoolUsage {
	if u.held.Len() == 0 {
		return p.idle
	}
	return newPoolUsage(p, func(device string) use {
		return u.use(DeviceID{Driver: p.ID.Driver, Pool: p.ID.Name, Device: device})
	})
}

func (u *Usage) use(id DeviceID) use {
	holders, _ := u.held.Get(id)
	return holders.use()
}

// allocate returns the usage with one more claim.
func (u *Usage) allocate(ref ClaimRef, taken []holding) *Usage {
	next := *u
	next.claims = u.claims.With(ref, taken)
	for i := range taken {
		holders, _ := next.held.Get(taken[i].device)
		next.held = next.held.With(taken[i].device, holders.with(&taken[i]))
	}
	next.update(taken)
	return &next
}

// release returns the usage without a claim that holds what is taken.
func (u *Usage) release(ref ClaimRef, taken []holding) *Usage {
	next := *u
	next.claims = u.claims.Without(ref)
	for _, h := range taken {
		holders, _ := next.held.Get(h.device)
		if left := holders.without(ref); len(left.list) > 0 {
			next.held = next.held.With(h.device, left)
		} else {
			next.held = next.held.Without(h.device)
		}
	}
	next.update(taken)
	return &next
}

// update brings the pools up to date of which devices came or went.
func (u *Usage) update(changed []holding) {
	edits := make(map[PoolID]*usageEdit)
	for _, h := range changed {
		id := h.device.PoolID()
		edit, found := edits[id]
		if !found {
			if pool := u.snapshot.Pool(id); pool != nil {
				edit = u.Pool(pool).edit()
			}
			edits[id] = edit
		}
		if edit != nil {
			edit.set(edit.usage.pool.Lookup(h.device.Device), u.use(h.device))
		}
	}
	for _, edit := range edits {
		if edit != nil {
			u.pools = u.pools.With(edit.usage.pool.slot, edit.done())
		}
	}
}

// rebase returns the usage over another snapshot. Pools that both have keep theirs, and
// are not even looked at if one snapshot was made from the other.
func (u *Usage) rebase(s *Snapshot) *Usage {
	next := *u
	next.snapshot = s
	var known persist.Array[*Pool]
	if u.snapshot != nil {
		known = u.snapshot.bySlot
	}
	edit := u.pools.Edit()
	persist.Differences(known, s.bySlot, func(slot int, _, pool *Pool) {
		if pool == nil {
			edit.Set(slot, nil) // lest its usage keeps the old pool from being collected
		} else {
			edit.Set(slot, u.compute(pool))
		}
	})
	next.pools = edit.Done()
	return &next
}
