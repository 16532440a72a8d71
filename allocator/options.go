package allocator

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// DefaultBudget is the number of search steps spent on one node before the
// answer is Undecided. It takes well under a second to spend, and is fifty times what the
// hardest cliff of benchmarks takes (see docs/decisions/0012).
const DefaultBudget = 200_000

// defaultPrograms is how many compiled CEL expressions an Allocator keeps.
const defaultPrograms = 1024

// Options configures an Allocator. The zero value allocates first fit with all
// features off.
type Options struct {
	// Features says which optional behaviour is on.
	Features Features
	// ShareID names each new share of a device that allows multiple
	// allocations. It must be safe for concurrent use. Nil numbers shares from 1
	// within each Assignment, which repeats exactly but is not unique across
	// assignments: schedulers pass a source of UUIDs.
	ShareID func() types.UID
	// Policy decides which device is preferred. Nil is FirstFit. With any other policy each
	// node is searched by itself: what a policy looks at is not known, so that no two nodes
	// can be taken for equal.
	Policy Policy
	// Budget is the number of search steps per node after which the answer is
	// Undecided. Searches for preferences may take as many again: what they do not find
	// then is missed. Zero or less is DefaultBudget.
	Budget int64
	// Programs holds compiled CEL expressions and may be shared between
	// allocators. Nil makes an own cache.
	Programs *cel.Cache
}

// Allocator compiles claims into problems. It holds what problems share: compiled
// CEL programs, the results of evaluating them, and answers about nodes. It is safe for
// concurrent use.
type Allocator struct {
	shareID   func() types.UID
	budget    int64
	evaluator *eligibility.Evaluator
	memory    *alike.Memory
	// before is the order of the policy, nil for first fit.
	before func(a, b eligibility.Candidate) bool
	// instances are memory for searches. Nothing in one outlives its search.
	instances sync.Pool
}

// New returns an Allocator.
func New(o Options) *Allocator {
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Programs == nil {
		o.Programs = cel.NewCache(defaultPrograms)
	}
	evaluator := eligibility.NewEvaluator(eligibility.Features(o.Features), o.Programs)
	a := &Allocator{shareID: o.ShareID, budget: o.Budget, evaluator: evaluator, memory: alike.NewMemory(evaluator)}
	a.instances.New = func() any { return new(model.Instance) }
	if _, first := o.Policy.(FirstFit); o.Policy != nil && !first {
		a.before = func(x, y eligibility.Candidate) bool { return o.Policy.Before(candidate(x), candidate(y)) }
	}
	return a
}

func candidate(c eligibility.Candidate) Candidate {
	return Candidate{Device: pools.Device(c.Device), Shared: c.Shared}
}

// PoolGates returns what a pools.Builder must be told about the features.
func (f Features) PoolGates() pools.Gates {
	return pools.Gates{
		PartitionableDevices: f.PartitionableDevices,
		CompatibilityGroups:  f.CompatibilityGroups,
		ConsumableCapacity:   f.ConsumableCapacity,
	}
}
