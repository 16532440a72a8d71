// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/pool"
)

// Builder is the index behind pools.Builder.
type Builder struct {
	gates  pool.Gates
	byName map[string]*pool.Source
	pools  map[pool.ID]*members
	dirty  []*members // pools whose slices changed since last
	last   *Snapshot
	// arrivals is the number of slices ever added, slots that of slots ever assigned. free are the slots of
	// removed pools.
	arrivals int
	slots    int
	free     []int
}

// members are the slices of one pool, of any generation.
type members struct {
	id      pool.ID
	slot    int
	sources []*pool.Source
	dirty   bool
}

// NewBuilder returns a Builder without slices.
func NewBuilder(gates pool.Gates) *Builder {
	return &Builder{
		gates:  gates,
		byName: make(map[string]*pool.Source),
		pools:  make(map[pool.ID]*members),
		last:   &Snapshot{gates: gates, common: &common{}, placeCache: newPlaceCache(0)},
	}
}

// Keep makes the next snapshots hold a reference to a value.
func (b *Builder) Keep(value any) { b.last.keeps = value }

// Set adds slices, or replaces those with the same object names.
func (b *Builder) Set(slices ...*resourceapi.ResourceSlice) {
	for _, slice := range slices {
		if slice == nil {
			continue
		}
		old := b.byName[slice.Name]
		if old != nil && old.Object == slice {
			continue
		}
		if old != nil {
			b.Remove(old)
		}
		b.byName[slice.Name] = b.Add(slice)
	}
}

// Delete removes the slice with an object name, if there is one.
func (b *Builder) Delete(name string) {
	if old := b.byName[name]; old != nil {
		delete(b.byName, name)
		b.Remove(old)
	}
}

// Snapshot returns the current state of the cluster. It rebuilds the pools that changed.
func (b *Builder) Snapshot() *Snapshot {
	if len(b.dirty) == 0 {
		return b.last
	}
	changes := make([]change, len(b.dirty))
	for i, m := range b.dirty {
		m.dirty = false
		changes[i] = change{id: m.id, pool: b.assemble(m)}
	}
	b.dirty = nil
	b.last = b.last.next(changes)
	return b.last
}

// assemble rebuilds a pool. A pool without slices is removed, and the result is nil.
func (b *Builder) assemble(m *members) *pool.Pool {
	if len(m.sources) == 0 {
		delete(b.pools, m.id)
		b.free = append(b.free, m.slot)
		return nil
	}
	return pool.Assemble(m.id, m.slot, b.gates, m.sources)
}

// Add adds a slice, also if there is one of that name.
func (b *Builder) Add(object *resourceapi.ResourceSlice) *pool.Source {
	s := pool.NewSource(b.gates, object, b.arrivals)
	b.arrivals++
	id := s.PoolID()
	m := b.pools[id]
	if m == nil {
		m = &members{id: id, slot: b.newSlot()}
		b.pools[id] = m
	}
	m.sources = append(m.sources, s)
	b.touch(m)
	return s
}

// Remove undoes one Add.
func (b *Builder) Remove(s *pool.Source) {
	m := b.pools[s.PoolID()]
	at := slices.Index(m.sources, s)
	m.sources = slices.Delete(m.sources, at, at+1)
	b.touch(m)
}

func (b *Builder) touch(m *members) {
	if !m.dirty {
		m.dirty = true
		b.dirty = append(b.dirty, m)
	}
}

func (b *Builder) newSlot() int {
	if last := len(b.free) - 1; last >= 0 {
		slot := b.free[last]
		b.free = b.free[:last]
		return slot
	}
	b.slots++
	return b.slots - 1
}
