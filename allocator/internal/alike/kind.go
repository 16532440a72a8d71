// Package alike lets nodes that a problem cannot tell apart share an answer.
//
// What a problem can see of a pool on a node is spelled out once as a pattern, by position and
// without names. The signature of a node is the patterns of its pools and what is in use of them.
// Nodes with equal signatures have equal answers. The state of a place is a number for its
// signature that is remembered until something changes there, so that most nodes of a fleet cost
// one look-up.
package alike

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/puzpuzpuz/xsync/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/allocator/internal/model"
)

// Answer is what is known of nodes that are alike. It is equal to no other one.
type Answer struct {
	model.Answer
	core atomic.Pointer[[]claims.Part] // nil if nobody asked
	root atomic.Pointer[inquiry]       // nil if nobody asked
}

// Core finds out once for all nodes and problems that share the answer which parts are in conflict.
func (a *Answer) Core(ctx context.Context, in *model.Instance) []claims.Part {
	if known := a.core.Load(); known != nil {
		return *known
	}
	found := in.Core(ctx)
	a.core.Store(&found)
	return found
}

// Memory is what an Allocator remembers of nodes. It is safe for concurrent use.
type Memory struct {
	evaluator     *eligibility.Evaluator
	reads         *Reads
	kinds, lenses *lru.Cache
}

// Reads is what a policy reads of devices beside what is in use of them: their capacities and
// some attributes.
type Reads struct {
	Attributes []resourceapi.FullyQualifiedName
}

const (
	// maxKinds is how many kinds of problems a Memory remembers answers for.
	maxKinds = 64
	// maxAnswers and maxPatterns bound what a kind remembers before it starts anew.
	maxAnswers  = 1 << 14
	maxPatterns = 1 << 14
)

// NewMemory returns a Memory for problems that are compiled with an Evaluator. Reads are those of the
// policy, nil for first fit.
func NewMemory(e *eligibility.Evaluator, reads *Reads) *Memory {
	return &Memory{evaluator: e, reads: reads, kinds: lru.New(maxKinds), lenses: lru.New(maxLenses)}
}

// Problem is a problem with what is remembered of nodes for problems that ask for the same.
type Problem struct {
	*claims.Problem
	evaluator *eligibility.Evaluator
	reads     *Reads
	kind      *kind
	// deterministic is set if equal nodes have equal answers.
	deterministic bool
}

// Problem joins a compiled problem with the memory. Deterministic says that devices are chosen by
// what the problem sees of them, what the policy reads, and their order alone.
func (m *Memory) Problem(p *claims.Problem, deterministic bool) (*Problem, error) {
	var buffer [signatureSize]byte
	key := memo.Key{Bytes: buffer[:0]}
	p.AppendKey(&key)
	joined := &Problem{Problem: p, evaluator: m.evaluator, reads: m.reads, deterministic: deterministic && !p.Particular()}
	if known, ok := m.kinds.Get(string(key.Bytes)); ok {
		joined.kind = known.(*kind)
		return joined, nil
	}
	joined.kind = &kind{answers: newAnswers()}
	var err error
	if joined.kind.lens, err = m.lensOf(p); err != nil {
		return nil, err
	}
	m.kinds.Add(string(key.Bytes), joined.kind)
	return joined, nil
}

// kind is what problems have in common that ask for the same: which patterns of pools there are, and
// which answers nodes have whose pools follow the same patterns.
type kind struct {
	answers
	lens *lens // nil if there is none
	// ofClass has the number of the pattern by class of the lens.
	ofClass memo.Table
	// ofState has answers by state of the lens.
	ofState stateTable
	// patterns numbers them. Answers may mention one that is forgotten.
	patterns memo.Numbers
}

// answers remembers answers by signature. Reading takes no lock and no allocation, and goroutines
// that add seldom wait for each other.
type answers struct {
	known *xsync.Map[string, *Answer]
}

func newAnswers() answers { return answers{known: xsync.NewMap[string, *Answer]()} }

// get returns nil if there is no such answer.
func (a *answers) get(signature []byte) *Answer {
	known, _ := a.known.Load(inPlace(signature))
	return known
}

func (a *answers) add(signature []byte, known *Answer) {
	if a.known.Size() >= maxAnswers {
		a.known.Clear()
	}
	a.known.Store(strings.Clone(inPlace(signature)), known)
}

// inPlace is a string that changes as the bytes do: good for looking something up, not for keeping.
func inPlace(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }

// lens is what some kinds of problems can tell about devices: the parts that their selectors read and
// the attributes that their constraints compare. Pools that look the same through a lens have the
// same pattern for each of these kinds, so a claim for another model costs one look at each class of
// pools, not at each pool. It is safe for concurrent use.
type lens struct {
	projection *eligibility.Projection
	attributes []resourceapi.FullyQualifiedName
	features   eligibility.Features
	reads      *Reads

	// classes numbers what pools look like, states what places with their use do.
	classes, states memo.Numbers
	// structures numbers what pools of a class are like, ofClass has these numbers.
	structures memo.Numbers
	ofClass    memo.Table
}

const (
	// maxLenses is how many lenses a Memory keeps.
	maxLenses = 64
	// maxClasses is how many classes of pools a lens tells apart. Others have none.
	maxClasses = 1 << 14
	// maxStates is how many states of places a lens tells apart before it starts anew.
	maxStates = 1 << 15
)

// lensKey is what makes a lens.
type lensKey struct {
	projection *eligibility.Projection
	attributes string
}

// lensOf returns the lens of a problem, nil if there is none: selectors may read anything or do not
// compile, capacity is asked for, or constraints compare attributes that are derived.
func (m *Memory) lensOf(p *claims.Problem) (*lens, error) {
	reads := make(eligibility.Reads)
	for _, f := range p.Filters {
		if f.Capacity != nil || f.Reads == nil {
			return nil, nil
		}
		maps.Copy(reads, f.Reads)
	}
	var attributes []resourceapi.FullyQualifiedName
	for _, alt := range p.Alternatives {
		if len(alt.Derived) > 0 {
			return nil, nil
		}
		for _, position := range alt.Constraints {
			attributes = append(attributes, p.Constraints[position].Attribute)
		}
	}
	seen, err := m.evaluator.Projection(reads)
	if err != nil {
		return nil, err
	}
	slices.Sort(attributes)
	attributes = slices.Compact(attributes)
	key := lensKey{seen, fmt.Sprintf("%q", attributes)}
	if known, ok := m.lenses.Get(key); ok {
		return known.(*lens), nil
	}
	l := &lens{projection: seen, attributes: attributes, features: m.evaluator.Features(), reads: m.reads}
	m.lenses.Add(key, l)
	return l, nil
}
