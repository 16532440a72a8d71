// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/memo"
)

// MemoryOptions configure a Memory. Of a number, zero or less is the default.
type MemoryOptions struct {
	// Off has nothing remembered but compiled expressions: every question is answered by a search, from the objects.
	// The answers are the same. It is for tests, and for those who want to know what remembering saves.
	Off bool
	// Programs holds compiled expressions, and may be shared between memories. Nil makes an own cache, of 1,024.
	Programs *cel.Cache
	// Results is how many results of expressions are kept, each for all devices that agree in what the expression
	// reads. The default is 65,536.
	Results int
	// Selections is how many different sets of selectors and capacities are kept, with the kinds of devices that
	// they select. The default is 1,024.
	Selections int
	// Problems is how many kinds of problems are kept: those of one kind ask for the same, under whatever names.
	// The default is 64.
	Problems int
	// Answers is how many answers are kept for each kind of problem, one for all nodes that it cannot tell apart.
	// The default is 32,768.
	Answers int
}

// withDefaults has defaults for what is not set.
func (o MemoryOptions) withDefaults() MemoryOptions {
	if o.Programs == nil {
		o.Programs = cel.NewCache(1024)
	}
	for _, bound := range []struct {
		of      *int
		usually int
	}{{&o.Results, 1 << 16}, {&o.Selections, 1024}, {&o.Problems, 64}, {&o.Answers, 1 << 15}} {
		if *bound.of <= 0 {
			*bound.of = bound.usually
		}
	}
	return o
}

// Memory is what allocators remember from one question to the next: compiled expressions, what they say of devices, and
// answers for nodes. Allocators with equal Features and Policy that have one Memory answer from what the others found
// out; others merely share the compiled expressions. What a search that ran out of its budget found is not remembered,
// so budgets may differ. A Memory is bounded, and safe for concurrent use.
type Memory struct {
	options  MemoryOptions
	counters alike.Counters
	lines    atomic.Uint32
	mu       sync.Mutex
	parts    *lru.Cache // by partKey
}

// maxParts is how many combinations of features and policies a Memory has parts for.
const maxParts = 16

// NewMemory returns an empty Memory.
func NewMemory(o MemoryOptions) *Memory {
	return &Memory{options: o.withDefaults(), parts: lru.New(maxParts)}
}

// MemoryStats count since the Memory was made.
type MemoryStats struct {
	// Searches are the questions about one node that were not answered from the Memory, Remembered the answers
	// that were added to it.
	Searches, Remembered int64
}

// Stats tells what the allocators of the Memory did.
func (m *Memory) Stats() MemoryStats {
	return MemoryStats{Searches: m.counters.Searches.Load(), Remembered: m.counters.Remembered.Load()}
}

// partKey is what allocators must agree in to share answers.
type partKey struct {
	features Features
	policy   Policy // nil for first fit
}

// part is what is remembered for some features and a policy.
type part struct {
	evaluator *eligibility.Evaluator
	answers   *alike.Memory
}

// part returns the one for features and a policy. Reads are those of the policy. A policy that is not comparable
// is like no other one.
func (m *Memory) part(key partKey, reads *alike.Reads) *part {
	shared := key.policy == nil || reflect.ValueOf(key.policy).Comparable()
	m.mu.Lock()
	defer m.mu.Unlock()
	if shared {
		if known, ok := m.parts.Get(key); ok {
			return known.(*part)
		}
	}
	bounds := memo.Bounds{
		Off: m.options.Off, Results: m.options.Results, Selections: m.options.Selections,
		Problems: m.options.Problems, Answers: m.options.Answers,
	}
	evaluator := eligibility.NewEvaluator(eligibility.Features(key.features), m.options.Programs, bounds)
	made := &part{evaluator, alike.NewMemory(evaluator, reads, bounds, &m.counters)}
	if shared {
		m.parts.Add(key, made)
	}
	return made
}
