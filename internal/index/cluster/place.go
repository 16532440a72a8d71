// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// NodeView is what one node can reach. Its Place is shared with other nodes of the same name, unless node
// selectors decide.
type NodeView struct {
	Node *corev1.Node
	*Place
}

// GatherPools returns the pools that the node can reach, as an allocation on the node sees them. What depends
// on the name of the node alone is cached. The error is about a nil node or a node selector that does not
// parse.
func (s *Snapshot) GatherPools(node *corev1.Node) (NodeView, error) {
	if node == nil {
		return NodeView{Place: &Place{}}, errors.New("node is nil")
	}
	var selected *Place
	for _, p := range s.common.pools {
		if err := p.CheckSelectors(node); err != nil {
			return NodeView{node, &Place{}}, err
		}
		if !p.SelectsNodes {
			continue
		}
		if view := p.Chosen(node); view != nil {
			if selected == nil {
				selected = &Place{}
				selected.Pools = selected.poolsBuffer[:0]
			}
			selected.Pools = append(selected.Pools, view)
		}
	}
	named := s.place(node.Name)
	if selected == nil {
		return NodeView{node, named}, nil
	}
	selected.Pools = append(selected.Pools, named.Pools...)
	slices.SortFunc(selected.Pools, pool.CompareViews)
	return NodeView{node, selected}, nil
}

// route has the pools with slices that name one node, in no order, and caches its Place.
type route struct {
	pools []*pool.Pool
	place atomic.Pointer[Place]
}

// Place is what a node reaches if only its name decides. Snapshots between which nothing changed for the node
// share it. It is safe for concurrent use.
type Place struct {
	// Pools are in first-fit order, see pool.CompareViews. The list and the views are shared: read-only.
	Pools []*pool.View
	// UseEnables is set if usage can make more devices available than there are with nothing in use, see
	// pool.Pool.
	UseEnables bool
	// Separate is set if no view is shared by all nodes and no device consumes counters. The usage of one
	// device then does not affect others.
	Separate bool

	common *common
	// node is the name, empty for the Place of all nodes that no slice names.
	node string
	// optional is set if a pool depends on the features that the node declares.
	optional    bool
	notes       atomic.Pointer[stateNote]
	poolsBuffer [1]*pool.View // memory for Pools of most places
	// Attachment is kept as long as nothing changes for the node.
	shape.Attachment
}

// Place returns what the node reaches, nil if more than its name decides.
func (s *Snapshot) Place(node *corev1.Node) *Place {
	if node == nil || s.common.selectsNodes {
		return nil
	}
	if place := s.place(node.Name); !place.optional {
		return place
	}
	return nil
}

// place returns what a node of this name reaches.
func (s *Snapshot) place(node string) *Place {
	slot, place := s.placeCache.find(node)
	if place != nil {
		return place
	}
	named, ok := s.byNode.Get(node)
	if !ok {
		return s.placeOf(&s.common.nowhere, "")
	}
	place = s.placeOf(named, node)
	slot.Store(place)
	return place
}

// placeCache caches the places of one Snapshot by name, as byNode needs a memory access for each level of its
// trie. Each name hashes to two slots. If both are occupied by other names, it is not cached.
type placeCache struct{ slots[Place] }

// newPlaceCache makes a cache with more than twice as many slots as names.
func newPlaceCache(names int) placeCache {
	return placeCache{newSlots[Place](chunkSize << bits.Len(uint(2*names/chunkSize)))}
}

var placeCacheSeed = maphash.MakeSeed()

// find returns the slot for a name, and its place, nil if it is not cached.
func (s placeCache) find(node string) (slot *atomic.Pointer[Place], known *Place) {
	first := int(maphash.String(placeCacheSeed, node) % uint64(len(s.slots)*chunkSize))
	for _, i := range [...]int{first, first ^ 1} {
		slot = s.at(i)
		if known = slot.Load(); known == nil || known.node == node {
			return slot, known
		}
	}
	return slot, nil
}

// slots is a list of pointers in chunks that are allocated on demand. It is safe for concurrent use.
type slots[T any] []atomic.Pointer[[chunkSize]atomic.Pointer[T]]

const chunkSize = 64

// newSlots returns slots for size pointers.
func newSlots[T any](size int) slots[T] { return make(slots[T], (size+chunkSize-1)/chunkSize) }

func (s slots[T]) at(i int) *atomic.Pointer[T] {
	chunk := &s[i/chunkSize]
	if chunk.Load() == nil {
		chunk.CompareAndSwap(nil, new([chunkSize]atomic.Pointer[T]))
	}
	return &chunk.Load()[i%chunkSize]
}

// placeOf returns what the nodes of a route reach.
func (s *Snapshot) placeOf(named *route, node string) *Place {
	known := named.place.Load()
	if known != nil && known.common == s.common {
		return known
	}
	made := &Place{common: s.common, node: node, Separate: true}
	made.Pools = made.poolsBuffer[:0]
	for _, p := range named.pools {
		made.Pools = append(made.Pools, known.view(p, node))
	}
	for _, p := range s.common.pools {
		if p.Elsewhere != nil && !slices.Contains(named.pools, p) {
			made.Pools = append(made.Pools, p.Elsewhere)
		}
	}
	slices.SortFunc(made.Pools, pool.CompareViews)
	for _, v := range made.Pools {
		made.Separate = made.Separate && !v.Common() && !v.Pool.Consuming
		made.UseEnables = made.UseEnables || v.Pool.UseEnables
		made.optional = made.optional || v.Pool.Optional
	}
	named.place.Store(made)
	return made
}

// view returns the view of a pool that names the node. A view of the previous place is reused, as views do not
// change.
func (p *Place) view(pool *pool.Pool, node string) *pool.View {
	if p != nil {
		for _, v := range p.Pools {
			if v.Pool == pool {
				return v
			}
		}
	}
	return pool.Named(node)
}

// common is the part of a Snapshot that does not depend on names of nodes.
type common struct {
	// pools are those that may reach nodes that their slices do not name (see pool.Pool.MayReachOthers),
	// sorted.
	pools []*pool.Pool
	// selectsNodes is set if more than the names of nodes decides what they reach.
	selectsNodes bool
	// nowhere is the route of nodes that no slice names.
	nowhere route
}

// next returns the common part of the next snapshot s after changes.
func (c *common) next(s *Snapshot, changes []change) *common {
	next := &common{pools: slices.DeleteFunc(slices.Clone(c.pools), func(p *pool.Pool) bool { return s.Pool(p.ID) != p })}
	for _, c := range changes {
		if c.pool.MayReachOthers() {
			next.pools = append(next.pools, c.pool)
		}
	}
	slices.SortFunc(next.pools, comparePools)
	next.selectsNodes = slices.ContainsFunc(next.pools, func(p *pool.Pool) bool { return p.SelectsNodes || p.CanFail() })
	return next
}

// stateNote is a number that an owner gave to a place with a certain usage. The notes of a place are an
// immutable linked list.
type stateNote struct {
	owner  any
	number uint32
	// usages are the usages of the pools of the place. usagesBuffer is memory for them, enough for most places.
	usages       []slotUsage
	usagesBuffer [1]slotUsage
	next         *stateNote
	length       int
}

// slotUsage is the usage of the pool with a Pool.Slot.
type slotUsage struct {
	slot  int
	usage *pool.Usage
}

// maxStateNotes bounds the notes of a place.
const maxStateNotes = 16

// Number returns the number that an owner gave to the place with its current usage. It is false if there is
// none, or if the usage has changed since. A nil State means that nothing is in use.
func (p *Place) Number(owner any, u *State) (uint32, bool) {
	for n := p.notes.Load(); n != nil; n = n.next {
		if n.owner == owner {
			changed := u != nil && slices.ContainsFunc(n.usages, func(known slotUsage) bool { return !u.has(known) })
			return n.number, !changed
		}
	}
	return 0, false
}

// has reports whether a pool still has a usage. Except for a lazy State, it does not access the pool.
func (u *State) has(known slotUsage) bool {
	if u.lazy != nil {
		return u.Pool(known.usage.Pool()) == known.usage
	}
	return u.pools.Get(known.slot) == known.usage
}

// SetNumber stores a number that an owner gives to the place with its current usage, and replaces the owner's
// last one. A concurrent call may make it ineffective.
func (p *Place) SetNumber(owner any, u *State, number uint32) {
	note := &stateNote{owner: owner, number: number, length: 1}
	note.usages = note.usagesBuffer[:0]
	for _, v := range p.Pools {
		note.usages = append(note.usages, slotUsage{v.Pool.Slot, u.Pool(v.Pool)})
	}
	head := p.notes.Load()
	if rest := head.without(owner); rest != nil && rest.length < maxStateNotes {
		note.next, note.length = rest, 1+rest.length
	}
	p.notes.CompareAndSwap(head, note)
}

// without returns the list without the note of an owner.
func (n *stateNote) without(owner any) *stateNote {
	switch {
	case n == nil:
		return nil
	case n.owner == owner:
		return n.next
	}
	rest := n.next.without(owner)
	if rest == n.next {
		return n
	}
	kept := *n
	kept.next, kept.length = rest, n.length-1
	return &kept
}
