package pools

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Builder follows the ResourceSlices of a cluster and makes Snapshots of them.
// It is not safe for concurrent use; the Snapshots it returns are.
type Builder struct {
	gates  Gates
	byName map[string]*source
	pools  map[PoolID]*members
	dirty  map[PoolID]struct{}
	shapes shapes
	last   *Snapshot
	// arrivals counts the slices ever added, slots the slots ever given to pools;
	// free are the slots of pools that are gone.
	arrivals int
	slots    int
	free     []int
}

// members are the slices of one pool, of any generation.
type members struct {
	slot    int
	sources []*source
}

// NewBuilder returns a Builder without slices.
func NewBuilder(gates Gates) *Builder {
	return &Builder{
		gates:  gates,
		byName: make(map[string]*source),
		pools:  make(map[PoolID]*members),
		dirty:  make(map[PoolID]struct{}),
		shapes: newShapes(),
		last:   &Snapshot{gates: gates, common: &common{}},
	}
}

// Set adds slices or replaces those of the same object names. Handing in the
// pointer that the builder holds already is free. Nil slices are ignored; a slice
// without driver or pool name belongs to the pool with the empty name. The slices
// are kept by pointer and must not be modified afterwards, as those of an informer.
func (b *Builder) Set(slices ...*resourceapi.ResourceSlice) {
	for _, slice := range slices {
		if slice == nil {
			continue
		}
		old := b.byName[slice.Name]
		if old != nil && old.object == slice {
			continue
		}
		// Adding first keeps the shapes that both have.
		b.byName[slice.Name] = b.add(slice)
		if old != nil {
			b.remove(old)
		}
	}
}

// Delete removes the slice of an object name, if there is one.
func (b *Builder) Delete(name string) {
	if old := b.byName[name]; old != nil {
		delete(b.byName, name)
		b.remove(old)
	}
}

// Snapshot returns the cluster as it is now. Pools of which no slice changed since
// the last call are shared with the last Snapshot; if nothing changed, it is the
// same. Otherwise the cost is that of rebuilding the changed pools and of copying
// one pointer per pool.
func (b *Builder) Snapshot() *Snapshot {
	if len(b.dirty) == 0 {
		return b.last
	}
	changes := make([]change, 0, len(b.dirty))
	for id := range b.dirty {
		changes = append(changes, change{id: id})
	}
	clear(b.dirty)
	slices.SortFunc(changes, func(x, y change) int { return comparePools(x.id, y.id) })
	for i := range changes {
		changes[i].pool = b.assemble(changes[i].id)
	}
	b.last = b.last.next(changes)
	return b.last
}

// assemble returns nil for a pool without slices, and forgets it.
func (b *Builder) assemble(id PoolID) *Pool {
	m := b.pools[id]
	if len(m.sources) == 0 {
		delete(b.pools, id)
		b.free = append(b.free, m.slot)
		return nil
	}
	return assemble(id, m.slot, b.gates, m.sources)
}

func (b *Builder) add(object *resourceapi.ResourceSlice) *source {
	s := newSource(b.gates, &b.shapes, object)
	s.arrival = b.arrivals
	b.arrivals++
	id := s.poolID()
	m := b.pools[id]
	if m == nil {
		m = &members{slot: b.newSlot()}
		b.pools[id] = m
	}
	m.sources = append(m.sources, s)
	b.dirty[id] = struct{}{}
	return s
}

func (b *Builder) remove(s *source) {
	id := s.poolID()
	m := b.pools[id]
	at := slices.Index(m.sources, s)
	m.sources = slices.Delete(m.sources, at, at+1)
	s.release(&b.shapes)
	b.dirty[id] = struct{}{}
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
