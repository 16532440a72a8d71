// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alike lets nodes that a problem cannot tell apart share an answer.
//
// A read set is what problems can tell about devices. It numbers what pools look like through it, and what
// nodes look like with what is in use of their pools: the states. There is one more memory, of the
// answers of problems that ask for the same, by state. The number of a pool is kept with the pool, and
// that of a state with the node until something changes there, so that most nodes of a fleet cost one
// look-up.
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

// Answer is what is known of nodes that are alike. It is equal to no other one.
type Answer struct {
	model.Answer
	State uint32                        // for which it is remembered, 0 if it is not
	core  atomic.Pointer[[]claims.Part] // nil if nobody asked
}

// Core finds out once for all nodes and problems that share the answer which parts are in conflict. An allocator with
// fewer steps than that may take finds out for itself.
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

// Memory is what allocators remember of nodes. It is safe for concurrent use.
type Memory struct {
	evaluator       *eligibility.Evaluator
	reads           *Reads
	bounds          memo.Bounds
	counters        *Counters
	kinds, readSets *lru.Cache
}

// Counters are those of a Memory, or of several.
type Counters struct{ Searches, Remembered atomic.Int64 }

// Reads is what a policy reads of devices beside what is in use of them: their capacities and
// some attributes.
type Reads struct {
	Attributes []resourceapi.FullyQualifiedName
}

// NewMemory returns a Memory for problems that are compiled with an Evaluator. Reads are those of the
// policy, nil for first fit.
func NewMemory(e *eligibility.Evaluator, reads *Reads, b memo.Bounds, c *Counters) *Memory {
	return &Memory{evaluator: e, reads: reads, bounds: b, counters: c, kinds: lru.New(b.Problems), readSets: lru.New(b.Problems)}
}

// Problem is a problem with what is remembered of nodes for problems that ask for the same.
type Problem struct {
	*claims.Problem
	memory *Memory
	*kind  // nil if equal nodes may have different answers
	owner  *owner
}

// Problem joins a compiled problem with the memory, for an allocator with that line. Deterministic says that
// devices are chosen by what the problem sees of them, what the policy reads, and their order alone.
func (m *Memory) Problem(p *claims.Problem, line uint32, deterministic bool) *Problem {
	joined := m.join(p, deterministic)
	if joined.kind != nil {
		joined.owner = &joined.readSet.owners[line%lines]
	}
	return joined
}

func (m *Memory) join(p *claims.Problem, deterministic bool) *Problem {
	joined := &Problem{Problem: p, memory: m}
	if m.bounds.Off || !deterministic || p.Particular() {
		return joined
	}
	key := memo.NewKey()
	p.AppendKey(&key)
	if known, ok := m.kinds.Get(string(key.Bytes)); ok && !known.(*kind).readSet.worn() {
		joined.kind = known.(*kind)
		return joined
	}
	joined.kind = &kind{m.readSetOf(p), xsync.NewMap[uint32, *Answer]()}
	m.kinds.Add(string(key.Bytes), joined.kind)
	return joined
}

// kind is what problems have in common that ask for the same.
type kind struct {
	readSet *readSet
	answers *xsync.Map[uint32, *Answer] // by state of the read set
}

// known is the answer for a state, nil if there is none. No state is 0.
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

func (p *Problem) remember(state uint32, a *Answer) {
	p.memory.counters.Remembered.Add(1)
	p.kind.remember(state, a, p.memory.bounds.Answers)
}

// readSet is what some kinds of problems can tell about devices: the parts that their expressions read, and
// the attributes that their constraints compare. So a claim for another model costs one look at each
// state that nodes are in, not at each node. It is safe for concurrent use.
type readSet struct {
	readSetKey
	attributes []resourceapi.FullyQualifiedName
	reads      *Reads
	// classes numbers what pools look like, states what nodes with their use do.
	classes, states memo.Numbers
	// owners are those of the notes that places keep of the last state in which they were seen. Who asks
	// about what is in use and who asks about what might be do not overwrite each other's.
	owners [lines]owner
}

// owner is told apart by its address.
type owner struct{ _ byte }

// lines is for how many allocators with one memory places keep notes apart.
const lines = 8

// readSetKey is what makes a read set.
type readSetKey struct {
	// projection is nil if derived attributes may read anything.
	projection *eligibility.Projection
	// compared are the attributes.
	compared string
	// derived is set if values that constraints compare may be computed. These are told by
	// what they are computed from, not by which of them are equal.
	derived bool
}

// worn reports whether problems of the read set get another one by now.
func (l *readSet) worn() bool { return l.projection != nil && l.projection.Worn() }

// readSetOf returns the read set of a problem.
func (m *Memory) readSetOf(p *claims.Problem) *readSet {
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
