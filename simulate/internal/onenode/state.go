// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
)

// content is what a read set covers of a node's devices. Nodes with equivalent devices share one.
type content struct {
	readSet *ReadSet
	example *Inventory

	snapshot func() *snapshot // of the example

	mu     sync.Mutex
	states map[string]*State
	listed bool // in stateCache.contents
	fresh  *State
}

// State is a content and the use of its devices: everything that decides which devices a pod gets on a node.
// Nodes in the same state share it, and so the cached answers. Answers name devices by position.
type State struct {
	content *content
	number  uint64 // unique
	Uses    Uses   // what is in use
	answers atomic.Pointer[[]*answerPage]
	mu      sync.Mutex // held to grow answers
	// without caches the result of fewerTaints.
	without atomic.Pointer[fewerTaints]
}

// answerPageSize is the number of answers in a page of the cache of a state.
const answerPageSize = 32

type answerPage [answerPageSize]atomic.Pointer[Answer]

// state returns the state with these uses.
func (c *content) state(u Uses) *State {
	if len(u) == 0 {
		return c.fresh
	}
	var buffer [128]byte
	key := u.AppendKey(buffer[:0])
	found, more, first := c.find(u, key)
	if more != 0 {
		c.readSet.cache.grow(more, first, nil)
	}
	return found
}

// find finds the state with a key, or makes it. More is how many more states there are, first is the content if these are the first.
func (c *content) find(u Uses, key []byte) (found *State, more int, first *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.states[string(key)]; known != nil {
		return known, 0, nil
	}
	made := newState(c, u)
	most := c.readSet.cache.States
	if most == 0 || c.readSet.cache.Total == 0 {
		return made, 0, nil
	}
	more = 1
	if n := len(c.states); n >= most {
		clear(c.states) // states that nodes are in live on
		more -= n
	}
	if !c.listed {
		c.listed, first = true, c
	}
	c.states[string(key)] = made
	return made, more, first
}

// fewerTaints has the states without simulated taints that correspond to a state.
type fewerTaints struct {
	all *State
	// withheld is all, with those devices withheld whose simulated taints exclude requests.
	withheld *State
}

// fewerTaints returns nil for a state without simulated taints.
func (s *State) fewerTaints() *fewerTaints {
	inv := s.content.example
	if inv.withoutAdded == nil {
		return nil
	}
	if known := s.without.Load(); known != nil {
		return known
	}
	l := s.content.readSet
	found := &fewerTaints{all: inv.withoutAdded.State(l, s.Uses), withheld: inv.withoutAdded.State(l, inv.withheld(s.Uses))}
	s.without.Store(found)
	return found
}

// Same compares by value, as a state may be dropped from the cache and made again.
func (s *State) Same(other *State) bool {
	if s == other || s == nil || other == nil {
		return s == other
	}
	return s.content == other.content && s.Uses.Equal(other.Uses)
}

// stateNumbers is the number of states ever made.
var stateNumbers atomic.Uint64

func newState(c *content, u Uses) *State {
	return &State{content: c, Uses: u, number: stateNumbers.Add(1)}
}

// Change returns the state with holdings added or removed.
func (s *State) Change(holdings []Holding, add bool) *State {
	if len(holdings) == 0 {
		return s
	}
	return s.content.state(s.Uses.Change(holdings, add))
}

// place returns the slot in the cache for the answer to a question. Questions with the same slot replace each
// other.
func (s *State) place(question int) (page, at int) {
	pages := max(1, s.content.readSet.cache.Answers/answerPageSize)
	return question / answerPageSize % pages, question % answerPageSize
}

// known returns the cached answer to a question, nil if there is none.
func (s *State) known(question int) *Answer {
	pages := s.answers.Load()
	if pages == nil {
		return nil
	}
	n, at := s.place(question)
	if n >= len(*pages) || (*pages)[n] == nil {
		return nil
	}
	if a := (*pages)[n][at].Load(); a != nil && a.question.id == question {
		return a
	}
	return nil
}

// learn caches an answer. If another goroutine came first, its answer is kept.
func (s *State) learn(a *Answer) *Answer {
	cache := s.content.readSet.cache
	if cache.Answers == 0 || cache.Total == 0 {
		return a
	}
	a, more, first := s.put(a)
	if more != 0 {
		cache.grow(more, nil, first)
	}
	return a
}

// put is learn, but for what is noted: how many more answers there are, and the state if these are the first.
func (s *State) put(a *Answer) (known *Answer, more int, first *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.known(a.question.id); before != nil {
		return before, 0, nil
	}
	var pages []*answerPage
	if p := s.answers.Load(); p != nil {
		pages = *p
	} else {
		first = s
	}
	n, at := s.place(a.question.id)
	if n >= len(pages) || pages[n] == nil {
		grown := make([]*answerPage, max(len(pages), n+1))
		copy(grown, pages)
		grown[n] = new(answerPage)
		pages = grown
		s.answers.Store(&grown)
	}
	more = a.weight()
	if before := pages[n][at].Swap(a); before != nil {
		more -= before.weight()
	}
	return a, more, first
}

// use is how one device is used. It is immutable.
type use struct {
	// Wholes is the number of exclusive holders of the device. More than one is an error of the cluster, but
	// must be represented.
	Wholes int32
	// shares is the number of holders of shares. consumed is the capacity that they consume together.
	shares int32
	// withheld is set if no request may get the device, for a reason other than use.
	withheld bool
	consumed map[resourceapi.QualifiedName]resource.Quantity
}

// PlacedUse is the use of the device at a position.
type PlacedUse struct {
	Device int32
	use
}

// Uses are the devices in use, sorted by position. It is immutable.
type Uses []PlacedUse

// Holding is a device, or a share of one, that a claim holds.
type Holding struct {
	Device   int32
	Share    bool
	Consumed map[resourceapi.QualifiedName]resource.Quantity
	// Request is the request for which the device was allocated.
	Request string
	// Claim is the index of the claim in the question.
	Claim int32
}

// Allows reports whether a device, or a share of it, can be held in addition to what is in use. Shares prevent
// an exclusive holder only if the device allows multiple allocations now: this may have changed since they were
// allocated.
func (u Uses) Allows(h *Holding, device *resourceapi.Device) bool {
	at, found := u.find(h.Device)
	if !found {
		return true
	}
	return u[at].Wholes == 0 && (h.Share || u[at].shares == 0 || !ptr.Deref(device.AllowMultipleAllocations, false))
}

// Change returns the uses with holdings added, or with equal holdings removed.
func (u Uses) Change(holdings []Holding, add bool) Uses {
	if len(holdings) == 0 {
		return u
	}
	next := make(Uses, len(u), len(u)+len(holdings))
	copy(next, u)
	for i := range holdings {
		h := &holdings[i]
		at, found := next.find(h.Device)
		if !found {
			next = slices.Insert(next, at, PlacedUse{Device: h.Device})
		}
		next[at].use = next[at].change(h, add)
		if next[at].Wholes == 0 && next[at].shares == 0 {
			next = slices.Delete(next, at, at+1)
		}
	}
	return next
}

// find returns the index of the use of a device, or where it would be inserted.
func (u Uses) find(device int32) (int, bool) {
	return slices.BinarySearchFunc(u, device, func(p PlacedUse, device int32) int { return cmp.Compare(p.Device, device) })
}

// Of returns the range of indices of the uses of a pool's devices.
func (u Uses) Of(p *OwnPool) (first, last int) {
	first, _ = u.find(p.First)
	last, _ = u.find(p.First + int32(len(p.Devices)))
	return first, last
}

func (u use) change(h *Holding, add bool) use {
	one := int32(1)
	if !add {
		one = -1
	}
	if !h.Share {
		u.Wholes += one
		return u
	}
	u.shares += one
	u.consumed = maps.Clone(u.consumed)
	for name, amount := range h.Consumed {
		sum := u.consumed[name].DeepCopy()
		if add {
			sum.Add(amount)
		} else {
			sum.Sub(amount)
		}
		if u.consumed == nil {
			u.consumed = make(map[resourceapi.QualifiedName]resource.Quantity)
		}
		if u.consumed[name] = sum; sum.IsZero() {
			delete(u.consumed, name)
		}
	}
	return u
}

// Same reports whether no question can distinguish the uses. Consumed capacity matters, but not the number of
// holders of shares.
func (u Uses) Same(other Uses) bool {
	return slices.EqualFunc(u, other, func(a, b PlacedUse) bool {
		return a.Device == b.Device && a.withheld == b.withheld && (a.Wholes > 0) == (b.Wholes > 0) && (a.shares > 0) == (b.shares > 0) &&
			maps.EqualFunc(a.consumed, b.consumed, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
	})
}

// Equal reports whether the uses are equal, including the numbers of holders. Pointers are compared first, as
// lists are copied on write.
func (u Uses) Equal(other Uses) bool {
	if len(u) != len(other) {
		return false
	}
	return len(u) == 0 || &u[0] == &other[0] || string(u.AppendKey(nil)) == string(other.AppendKey(nil))
}

// AppendKey appends a key that is equal for equal uses.
func (u Uses) AppendKey(to []byte) []byte {
	k := memo.Key{Bytes: to}
	for i := range u {
		p := &u[i]
		k.Number(int(p.Device))
		k.Number(int(p.Wholes))
		k.Flags(p.withheld)
		if k.Number(int(p.shares)); p.shares == 0 {
			continue
		}
		k.Number(len(p.consumed))
		for _, name := range slices.Sorted(maps.Keys(p.consumed)) {
			k.Text(string(name))
			k.Amount(quantity.Amount(p.consumed[name]))
		}
	}
	return k.Bytes
}
