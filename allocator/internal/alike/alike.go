// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alike lets equivalent nodes share an answer: nodes that a problem cannot tell apart.
//
// A read set is what problems read of devices. It numbers pools by what it sees of their devices (classes), and
// nodes by the classes and the usage of their pools (states). Answers are remembered by state, for all problems
// that ask for the same. The class is cached with the pool, and the state with the node until something changes
// there. So most nodes of a fleet cost one look-up.
package alike

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/memo"
)

// Answer is the shared answer of equivalent nodes. It is compared by its address.
type Answer struct {
	model.Finding
	State uint32                        // the state for which it is remembered, 0 if it is not
	core  atomic.Pointer[[]claims.Part] // nil until it is computed
}

// Core computes the conflict core once for all nodes and problems that share the answer. An allocator whose
// budget is below CoreBudget computes it without storing it.
func (a *Answer) Core(ctx context.Context, in *model.Instance) []claims.Part {
	if known := a.core.Load(); known != nil {
		return *known
	}
	found := in.Core(ctx)
	if in.Budget >= model.CoreBudget {
		a.core.Store(&found)
	}
	return found
}

// Memory holds the answers that allocators remember. It is safe for concurrent use.
type Memory struct {
	evaluator       *eligibility.Evaluator
	reads           *Reads
	bounds          memo.Bounds
	counters        *Counters
	kinds, readSets *lru.Cache
}

// Counters are those of one Memory, or of several together.
type Counters struct{ Searches, Remembered atomic.Int64 }

// Reads is what a policy reads of devices besides their usage and their capacities.
type Reads struct {
	Attributes []resourceapi.FullyQualifiedName
}

// NewMemory returns a Memory for problems that are compiled with an Evaluator. Reads are those of the policy,
// nil for first fit.
func NewMemory(e *eligibility.Evaluator, reads *Reads, b memo.Bounds, c *Counters) *Memory {
	return &Memory{evaluator: e, reads: reads, bounds: b, counters: c, kinds: lru.New(b.Problems), readSets: lru.New(b.Problems)}
}

// Recall is a compiled problem with the answers that are remembered for its kind.
type Recall struct {
	*claims.Compiled
	memory *Memory
	*kind  // nil if equivalent nodes may have different answers
	owner  *owner
}

// Recall joins a compiled problem with the memory. id identifies the allocator. Deterministic means that the
// choice of devices depends on nothing but what the problem and the policy read of them, and their order.
func (m *Memory) Recall(p *claims.Compiled, id uint32, deterministic bool) *Recall {
	joined := m.join(p, deterministic)
	if joined.kind != nil {
		joined.owner = &joined.readSet.owners[id%maxOwners]
	}
	return joined
}

func (m *Memory) join(p *claims.Compiled, deterministic bool) *Recall {
	joined := &Recall{Compiled: p, memory: m}
	if m.bounds.Off || !deterministic || p.IdentifiesDevices() {
		return joined
	}
	key := memo.NewKey()
	p.AppendKey(&key)
	if known, ok := m.kinds.Get(string(key.Bytes)); ok && !known.(*kind).readSet.full() {
		joined.kind = known.(*kind)
		return joined
	}
	joined.kind = &kind{m.readSetOf(p), xsync.NewMap[uint32, *Answer]()}
	m.kinds.Add(string(key.Bytes), joined.kind)
	return joined
}

// kind is shared by problems that ask for the same.
type kind struct {
	readSet *readSet
	answers *xsync.Map[uint32, *Answer] // by state of the read set
}

// known returns the answer for a state, nil if there is none. State 0 has none.
func (k *kind) known(state uint32) *Answer {
	if state == 0 {
		return nil
	}
	answer, _ := k.answers.Load(state)
	return answer
}

func (k *kind) remember(state uint32, a *Answer, most int) {
	if k.answers.Size() >= most {
		k.answers.Clear()
	}
	a.State = state
	k.answers.Store(state, a)
}

func (p *Recall) remember(state uint32, a *Answer) {
	p.memory.counters.Remembered.Add(1)
	p.kind.remember(state, a, p.memory.bounds.Answers)
}

// readSet is what some kinds of problems read of devices: the attributes that their expressions read, and those
// that their constraints compare. A new kind of problem then costs one search for each state, not for each
// node. It is safe for concurrent use.
type readSet struct {
	readSetKey
	attributes []resourceapi.FullyQualifiedName
	reads      *Reads
	// classes numbers pools by what is read of their devices. states numbers nodes by classes and usage.
	classes, states memo.Numbers
	// owners are keys under which nodes cache their state. Allocators with different usage, such as what is in
	// use and what might be, have different owners and do not overwrite each other's entries.
	owners [maxOwners]owner
}

// owner is compared by its address.
type owner struct{ _ byte }

// maxOwners is how many allocators of one memory have an owner of their own.
const maxOwners = 8

// readSetKey identifies a read set.
type readSetKey struct {
	// projection is nil if derived attributes may read anything.
	projection *eligibility.Projection
	// compared are the attributes that constraints compare.
	compared string
	// derived is set if constraints may compare derived attributes. Keys then contain the values that
	// constraints compare, and not only which of them are equal.
	derived bool
}

// full reports whether problems of the read set now get a new one, see Projection.Full.
func (l *readSet) full() bool { return l.projection != nil && l.projection.Full() }

// readSetOf returns the read set of a problem, made if it is missing.
func (m *Memory) readSetOf(p *claims.Compiled) *readSet {
	var key readSetKey
	derived := make(eligibility.Reads)
	var attributes []resourceapi.FullyQualifiedName
	for _, alt := range p.Alternatives {
		if derived != nil && !derived.AddDerived(alt.Derived) {
			derived = nil
		}
		key.derived = key.derived || len(alt.Derived) > 0
		for _, position := range alt.Constraints {
			attributes = append(attributes, p.Constraints[position].Attribute)
		}
	}
	slices.Sort(attributes)
	attributes = slices.Compact(attributes)
	key.compared = fmt.Sprintf("%q", attributes)
	key.projection = m.evaluator.Projection(p.Filters, derived)
	if known, ok := m.readSets.Get(key); ok {
		return known.(*readSet)
	}
	made := &readSet{readSetKey: key, attributes: attributes, reads: m.reads}
	m.readSets.Add(key, made)
	return made
}
