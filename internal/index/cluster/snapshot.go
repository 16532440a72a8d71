// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/persist"
	"github.com/dray-project/dray/internal/index/pool"
)

// Snapshot is the index behind pools.Snapshot.
type Snapshot struct {
	gates pool.Gates
	byID  persist.Map[pool.ID, *pool.Pool]
	count int // number of pools
	// bySlot has the pools by Pool.Slot. Snapshots made from each other share the chunks that did not change,
	// so that State.Rebase only visits the changed ones.
	bySlot persist.Array[*pool.Pool]
	// byNode has a route for each node that a slice names.
	byNode persist.Map[string, *route]
	names  int // number of entries of byNode
	// placeCache caches places in front of byNode.
	placeCache placeCache
	// common is shared with the next snapshot unless one of its pools changed.
	common *common
	places atomic.Pointer[Places]
	// keeps is the value of Builder.Keep.
	keeps any
}

// Build makes a Snapshot of slices all at once. Slices may have equal names.
func Build(gates pool.Gates, slices []*resourceapi.ResourceSlice) *Snapshot {
	b := NewBuilder(gates)
	for _, slice := range slices {
		if slice != nil {
			b.Add(slice)
		}
	}
	return b.Snapshot()
}

// Of makes a Snapshot of pools that were assembled with these gates, each with a separate slot.
func Of(gates pool.Gates, pools []*pool.Pool) *Snapshot {
	changes := make([]change, len(pools))
	for i, p := range pools {
		changes[i] = change{id: p.ID, pool: p}
	}
	return (&Snapshot{gates: gates, common: &common{}}).next(changes)
}

// Built reports whether the Snapshot is other than the zero value.
func (s *Snapshot) Built() bool { return s.common != nil }

// Gates returns the gates that the Snapshot was built with.
func (s *Snapshot) Gates() pool.Gates { return s.gates }

// Len is the number of pools.
func (s *Snapshot) Len() int { return s.count }

// Pools returns all pools, sorted by driver and name.
func (s *Snapshot) Pools() []*pool.Pool {
	list := make([]*pool.Pool, 0, s.count)
	for slot := range s.bySlot.Len() {
		if p := s.bySlot.Get(slot); p != nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, comparePools)
	return list
}

func comparePools(a, b *pool.Pool) int { return a.ID.Compare(b.ID) }

// Pool returns the pool of an ID, nil if there is none.
func (s *Snapshot) Pool(id pool.ID) *pool.Pool {
	p, _ := s.byID.Get(id)
	return p
}

// Has reports whether the snapshot contains a slice and the slice contributes to its pool.
func (s *Snapshot) Has(slice *resourceapi.ResourceSlice) bool {
	p := s.Pool(pool.ID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name})
	return p != nil && slices.ContainsFunc(p.Slices, func(of *pool.Slice) bool { return of.Object == slice })
}

// change is a pool that was added or replaced, or removed if pool is nil.
type change struct {
	id   pool.ID
	pool *pool.Pool
}

// next returns the snapshot after changes. It copies one pointer per 64 pools of the cluster; otherwise the
// time is in proportion to the changes.
func (s *Snapshot) next(changes []change) *Snapshot {
	next := &Snapshot{gates: s.gates, keeps: s.keeps, byID: s.byID, count: s.count, byNode: s.byNode, names: s.names, common: s.common}
	mayReachOthers := false
	slots := s.bySlot.Edit()
	for _, c := range changes {
		old := s.Pool(c.id)
		mayReachOthers = mayReachOthers || old.MayReachOthers() || c.pool.MayReachOthers()
		if old != nil {
			next.reroute(old, func(list []*pool.Pool) []*pool.Pool {
				return slices.DeleteFunc(slices.Clone(list), func(p *pool.Pool) bool { return p == old })
			})
			slots.Set(old.Slot, nil)
			next.count--
		}
		if c.pool == nil {
			next.byID = next.byID.Without(c.id)
			continue
		}
		// Clip makes append copy, as other snapshots share the list.
		next.reroute(c.pool, func(list []*pool.Pool) []*pool.Pool { return append(slices.Clip(list), c.pool) })
		slots.Set(c.pool.Slot, c.pool)
		next.byID = next.byID.With(c.id, c.pool)
		next.count++
	}
	next.bySlot = slots.Done()
	next.placeCache = newPlaceCache(next.names)
	if mayReachOthers {
		next.common = s.common.next(next, changes)
	}
	return next
}

// reroute changes the routes of the nodes that a pool names. Of their places it only keeps the views, for
// reuse.
func (s *Snapshot) reroute(p *pool.Pool, changed func([]*pool.Pool) []*pool.Pool) {
	for node := range p.Nodes() {
		old, found := s.byNode.Get(node)
		if !found {
			old = &route{}
			s.names++
		}
		next := &route{pools: changed(old.pools)}
		if len(next.pools) == 0 {
			s.byNode = s.byNode.Without(node)
			s.names--
			continue
		}
		if known := old.place.Load(); known != nil {
			next.place.Store(&Place{Pools: slices.Clone(known.Pools)})
		}
		s.byNode = s.byNode.With(node, next)
	}
}
