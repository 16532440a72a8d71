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

// content is what the questions of a read set can tell of the devices of a node. Nodes with equal
// devices share one.
type content struct {
	readSet *ReadSet
	example *Inventory

	snapshot func() *snapshot // of the example

	mu     sync.Mutex
	states map[string]*State
	listed bool // among those that kept forgets
	fresh  *State
}

// State is a content with what is in use of it: everything that decides which devices a
// pod gets on a node. Two nodes in the same state have equal answers by position. There is one
// for all nodes that are in it, which is what the answers are remembered with.
type State struct {
	content *content
	number  uint64 // no two are equal
	Uses    Uses   // what is in use
	answers atomic.Pointer[[]*answerPage]
	mu      sync.Mutex // held to grow answers
	// without is what fewerTaints found, once it was asked.
	without atomic.Pointer[fewerTaints]
}

// answerPageSize is how many answers of one state are kept together.
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
		c.readSet.bounds.note(more, first, nil)
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
	most := c.readSet.bounds.States
	if most == 0 || c.readSet.bounds.Total == 0 {
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

// fewerTaints is what a state is without taints of what-ifs.
type fewerTaints struct {
	all *State
	// withheld is all with the devices withheld that have taints which keep requests away.
	withheld *State
}

// fewerTaints returns nil for a state without taints of what-ifs.
func (s *State) fewerTaints() *fewerTaints {
	inv := s.content.example
	if inv.plain == nil {
		return nil
	}
	if known := s.without.Load(); known != nil {
		return known
	}
	l := s.content.readSet
	found := &fewerTaints{all: inv.plain.State(l, s.Uses), withheld: inv.plain.State(l, inv.withheld(s.Uses))}
	s.without.Store(found)
	return found
}

// Same compares by content: a state may be forgotten and made again.
func (s *State) Same(other *State) bool {
	if s == other || s == nil || other == nil {
		return s == other
	}
	return s.content == other.content && s.Uses.Equal(other.Uses)
}

// stateNumbers counts the states ever made.
var stateNumbers atomic.Uint64

func newState(c *content, u Uses) *State {
	return &State{content: c, Uses: u, number: stateNumbers.Add(1)}
}

// Change returns the state with holdings added or taken away.
func (s *State) Change(holdings []Holding, add bool) *State {
	if len(holdings) == 0 {
		return s
	}
	return s.content.state(s.Uses.Change(holdings, add))
}

// place is where the answer to a question is. Questions with one place take it from each other.
func (s *State) place(question int) (page, at int) {
	pages := max(1, s.content.readSet.bounds.Answers/answerPageSize)
	return question / answerPageSize % pages, question % answerPageSize
}

// known returns the answer to a question, nil if it was not asked, or was forgotten.
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

// learn remembers an answer. If another goroutine came first, its answer stays.
func (s *State) learn(a *Answer) *Answer {
	kept := s.content.readSet.bounds
	if kept.Answers == 0 || kept.Total == 0 {
		return a
	}
	a, more, first := s.put(a)
	if more != 0 {
		kept.note(more, nil, first)
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

// use is how one device is in use. It is immutable.
type use struct {
	// Wholes is how many hold all of the device. More than one is an error of the cluster,
	// and a fact.
	Wholes int32
	// shares is how many hold a share, consumed is what they hold together.
	shares int32
	// withheld is set if no request gets the device, for another reason.
	withheld bool
	consumed map[resourceapi.QualifiedName]resource.Quantity
}

// PlacedUse is the use of the device at a position of a list of pools.
type PlacedUse struct {
	Device int32
	use
}

// Uses is what is in use, sorted by position, without free devices. It is immutable.
type Uses []PlacedUse

// Holding is a device, or a share of one, that a claim holds.
type Holding struct {
	Device   int32
	Share    bool
	Consumed map[resourceapi.QualifiedName]resource.Quantity
	// Request is what the device was allocated for.
	Request string
	// Claim is the position of the claim in the question that was asked.
	Claim int32
}

// Allows reports whether a device, or a share of it, can be held besides what is in use. As in an allocation, shares keep
// the whole of a device from being held only if the device can be shared: it may have been so when they were allocated.
func (u Uses) Allows(h *Holding, device *resourceapi.Device) bool {
	at, found := u.find(h.Device)
	if !found {
		return true
	}
	return u[at].Wholes == 0 && (h.Share || u[at].shares == 0 || !ptr.Deref(device.AllowMultipleAllocations, false))
}

// Change returns the uses with holdings added, or with the same holdings taken away.
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

// find returns where the use of a device is, or would be.
func (u Uses) find(device int32) (int, bool) {
	return slices.BinarySearchFunc(u, device, func(p PlacedUse, device int32) int { return cmp.Compare(p.Device, device) })
}

// Of is where the uses of devices of a pool are.
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

// Same reports whether no question can tell two uses apart: how many hold a share makes no
// difference, only what they hold together.
func (u Uses) Same(other Uses) bool {
	return slices.EqualFunc(u, other, func(a, b PlacedUse) bool {
		return a.Device == b.Device && a.withheld == b.withheld && (a.Wholes > 0) == (b.Wholes > 0) && (a.shares > 0) == (b.shares > 0) &&
			maps.EqualFunc(a.consumed, b.consumed, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
	})
}

// Equal reports whether the same devices are in use, by as many. Lists are replaced when they change, so that most
// are told by where they are.
func (u Uses) Equal(other Uses) bool {
	if len(u) != len(other) {
		return false
	}
	return len(u) == 0 || &u[0] == &other[0] || string(u.AppendKey(nil)) == string(other.AppendKey(nil))
}

// AppendKey appends bytes that are equal for equal uses.
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
