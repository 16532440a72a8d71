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

// NodeView is what one node can reach. If more than the name of the node decides that, the place is
// its own.
type NodeView struct {
	Node *corev1.Node
	*Place
}

// GatherPools returns the pools which the node can reach, as an allocation for the
// node sees them. What depends on the name of the node alone is remembered. The error is about a nil
// node or a selector that does not parse.
func (s *Snapshot) GatherPools(node *corev1.Node) (NodeView, error) {
	if node == nil {
		return NodeView{Place: &Place{}}, errors.New("node is nil")
	}
	var own *Place
	for _, p := range s.common.pools {
		if err := p.CheckSelectors(node); err != nil {
			return NodeView{node, &Place{}}, err
		}
		if !p.SelectsNodes {
			continue
		}
		if view := p.Chosen(node); view != nil {
			if own == nil {
				own = &Place{}
				own.Pools = own.one[:0]
			}
			own.Pools = append(own.Pools, view)
		}
	}
	named := s.place(node.Name)
	if own == nil {
		return NodeView{node, named}, nil
	}
	own.Pools = append(own.Pools, named.Pools...)
	slices.SortFunc(own.Pools, pool.CompareViews)
	return NodeView{node, own}, nil
}

// route has the pools with slices that name one node, in no order, and what follows from them.
type route struct {
	pools []*pool.Pool
	place atomic.Pointer[Place]
}

// Place is what a node reaches by its name alone. It is the same for snapshots between
// which nothing changed for the node, and safe for concurrent use.
type Place struct {
	// Pools are in first-fit order, see pool.CompareViews. The list and the views are shared and must not be
	// modified.
	Pools []*pool.View
	// UseEnables is set if what is in use may make something obtainable that is not if nothing is in use.
	UseEnables bool
	// Separate is set if no pool is one of all nodes and no device consumes counters: what is in use of a
	// device says nothing about others.
	Separate bool

	common *common
	// node is the name, empty for all that no slice names.
	node string
	// optional is set if something depends on which features the node declares.
	optional bool
	notes    atomic.Pointer[stateNote]
	one      [1]*pool.View // room for the views of most places
	// Attachment is kept for as long as nothing changes for the node.
	shape.Attachment
}

// Place returns what the node reaches, nil if more than its name decides that.
func (s *Snapshot) Place(node *corev1.Node) *Place {
	if node == nil || s.common.selectsNodes {
		return nil
	}
	if place := s.place(node.Name); !place.optional {
		return place
	}
	return nil
}

// place returns what the node reaches by its name.
func (s *Snapshot) place(node string) *Place {
	slot, place := s.shortcuts.find(node)
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

// shortcuts find places of one Snapshot again in one step, where byNode takes one for each of its levels, each to
// memory of its own. A name has one of two slots. Where these are not enough, some names are never found.
type shortcuts struct{ slots[Place] }

// newShortcuts has more than twice as many slots as names.
func newShortcuts(names int) shortcuts {
	return shortcuts{newSlots[Place](chunkSize << bits.Len(uint(2*names/chunkSize)))}
}

var shortcutSeed = maphash.MakeSeed()

// find returns the place of a name if it was stored in the slot for it.
func (s shortcuts) find(node string) (slot *atomic.Pointer[Place], known *Place) {
	first := int(maphash.String(shortcutSeed, node) % uint64(len(s.slots)*chunkSize))
	for _, i := range [...]int{first, first ^ 1} {
		slot = s.at(i)
		if known = slot.Load(); known == nil || known.node == node {
			return slot, known
		}
	}
	return slot, nil
}

// slots is a list of pointers in chunks, which are made when they are needed. It is safe for concurrent use.
type slots[T any] []atomic.Pointer[[chunkSize]atomic.Pointer[T]]

const chunkSize = 64

// newSlots has room for a number of pointers.
func newSlots[T any](size int) slots[T] { return make(slots[T], (size+chunkSize-1)/chunkSize) }

func (s slots[T]) at(i int) *atomic.Pointer[T] {
	chunk := &s[i/chunkSize]
	if chunk.Load() == nil {
		chunk.CompareAndSwap(nil, new([chunkSize]atomic.Pointer[T]))
	}
	return &chunk.Load()[i%chunkSize]
}

// placeOf returns what nodes of a route reach.
func (s *Snapshot) placeOf(named *route, node string) *Place {
	known := named.place.Load()
	if known != nil && known.common == s.common {
		return known
	}
	made := &Place{common: s.common, node: node, Separate: true}
	made.Pools = made.one[:0]
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

// view returns the view of a pool which names the node. That of the place before is kept,
// for what it is has not changed.
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

// common is the part of a Snapshot that concerns nodes whatever their names are.
type common struct {
	// pools are those that may reach nodes which their slices do not name (see pool.Pool.MayReachOthers), sorted.
	pools []*pool.Pool
	// selectsNodes is set if more than the names of nodes decides what they reach.
	selectsNodes bool
	// nowhere is the route of nodes which no slice names.
	nowhere route
}

// next is for a snapshot that followed after changes.
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

// stateNote is a number that somebody gave to a place in one state of use. It is an
// immutable list.
type stateNote struct {
	of     any
	number uint32
	// usages are what was in use of each pool of the place. That of most places is in one.
	usages []slotUsage
	one    [1]slotUsage
	next   *stateNote
	length int
}

// slotUsage says that a pool was in that state, by Pool.Slot.
type slotUsage struct {
	slot  int
	usage *pool.Usage
}

// maxStateNotes bounds the notes of a place.
const maxStateNotes = 16

// Number returns the number that was given on somebody's behalf to the place in the state
// of use in which it is. It is false if none was, or if the state has changed since. A nil
// State stands for nothing in use, which is always the same.
func (p *Place) Number(of any, u *State) (uint32, bool) {
	for n := p.notes.Load(); n != nil; n = n.next {
		if n.of == of {
			changed := u != nil && slices.ContainsFunc(n.usages, func(known slotUsage) bool { return !u.has(known) })
			return n.number, !changed
		}
	}
	return 0, false
}

// has does not look at the pool if it need not.
func (u *State) has(known slotUsage) bool {
	if u.lazy != nil {
		return u.Pool(known.usage.Pool()) == known.usage
	}
	return u.pools.Get(known.slot) == known.usage
}

// SetNumber gives the place in this state of use a number, instead of the last one on
// the same behalf. It may be lost to a concurrent call.
func (p *Place) SetNumber(of any, u *State, number uint32) {
	note := &stateNote{of: of, number: number, length: 1}
	note.usages = note.one[:0]
	for _, v := range p.Pools {
		note.usages = append(note.usages, slotUsage{v.Pool.Slot, u.Pool(v.Pool)})
	}
	head := p.notes.Load()
	if rest := head.without(of); rest != nil && rest.length < maxStateNotes {
		note.next, note.length = rest, 1+rest.length
	}
	p.notes.CompareAndSwap(head, note)
}

// without returns the list without the note of somebody.
func (n *stateNote) without(of any) *stateNote {
	switch {
	case n == nil:
		return nil
	case n.of == of:
		return n.next
	}
	rest := n.next.without(of)
	if rest == n.next {
		return n
	}
	kept := *n
	kept.next, kept.length = rest, n.length-1
	return &kept
}
