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

// MemoryOptions configure a Memory. A bound of zero or less means its default.
type MemoryOptions struct {
	// Off switches all caches off except that of compiled expressions: each question is answered by a search.
	// The answers are the same. It is for tests, and to measure what the caches save.
	Off bool
	// Programs holds compiled expressions, and may be shared between memories. Nil makes a cache of 1,024
	// programs for this Memory.
	Programs *cel.Cache
	// Results is how many CEL results are kept. Devices that agree in what an expression reads share one
	// result. The default is 65,536.
	Results int
	// Selections is how many sets of selectors and capacities are kept, each with the device shapes that it
	// selects. The default is 1,024.
	Selections int
	// Problems is how many equivalence classes of problems are kept. Problems are equivalent if they ask for
	// the same, under any names. The default is 64.
	Problems int
	// Answers is how many answers are kept for each equivalence class of problems, one for all nodes that it
	// cannot tell apart. The default is 32,768.
	Answers int
}

// withDefaults fills in unset fields.
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

// Memory holds what allocators remember between questions: compiled expressions, their results for devices, and
// answers for nodes. Allocators with one Memory and equal Features and Policy share all of it; others share the
// compiled expressions only. Results of a search that ran out of its budget are not remembered, so budgets may
// differ. A Memory is bounded, and safe for concurrent use.
type Memory struct {
	options  MemoryOptions
	counters alike.Counters
	ids      atomic.Uint32
	mu       sync.Mutex
	parts    *lru.Cache // by partKey
}

// maxParts bounds the parts of a Memory, which evicts the least recently used one.
const maxParts = 16

// NewMemory returns an empty Memory.
func NewMemory(o MemoryOptions) *Memory {
	return &Memory{options: o.withDefaults(), parts: lru.New(maxParts)}
}

// MemoryStats counts since the Memory was made.
type MemoryStats struct {
	// Searches is how many questions about one node were not answered from the Memory. Remembered is how many
	// answers were added to it.
	Searches, Remembered int64
}

// Stats counts the work of all allocators of the Memory.
func (m *Memory) Stats() MemoryStats {
	return MemoryStats{Searches: m.counters.Searches.Load(), Remembered: m.counters.Remembered.Load()}
}

// partKey is what allocators must have in common to share answers.
type partKey struct {
	features Features
	policy   Policy // nil for first fit
}

// part is what is remembered for one partKey.
type part struct {
	evaluator *eligibility.Evaluator
	answers   *alike.Memory
}

// part returns the part for a key, made if it is missing. Reads are the attributes that the policy reads. A
// policy that is not comparable gets a separate part.
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
