package allocator

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// DefaultBudget is the number of search steps spent on one node before the
// answer is Undecided. It takes well under a second to spend, and is fifty times what the
// hardest cliff of benchmarks takes (see docs/decisions/0012).
const DefaultBudget = 200_000

// defaultPrograms is how many compiled CEL expressions an Allocator keeps.
const defaultPrograms = 1024

// maxKinds is how many kinds of problems an Allocator remembers answers for.
const maxKinds = 64

// defaultMemo is how many CEL results an Allocator remembers.
const defaultMemo = 1 << 16

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
	// Policy decides which device is preferred. Nil is FirstFit.
	Policy Policy
	// Budget is the number of search steps per node after which the answer is
	// Undecided. Zero or less is DefaultBudget.
	Budget int64
	// Programs holds compiled CEL expressions and may be shared between
	// allocators. Nil makes an own cache.
	Programs *cel.Cache
}

// Allocator compiles claims into problems. It holds what problems share: compiled
// CEL programs and the results of evaluating them. It is safe for concurrent use.
type Allocator struct {
	features Features
	shareID  func() types.UID
	policy   Policy
	budget   int64
	selector *evaluator
	filters  *lru.Cache
	// selections are those of filters.
	selections *lru.Cache
	kinds      *lru.Cache
	lenses     *lru.Cache
	sights     *lru.Cache
	desks      sync.Pool // of *desk
	// filterIDs counts the filters ever made.
	filterIDs atomic.Int64
}

// New returns an Allocator.
func New(o Options) *Allocator {
	if o.Policy == nil {
		o.Policy = FirstFit{}
	}
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Programs == nil {
		o.Programs = cel.NewCache(defaultPrograms)
	}
	return &Allocator{
		features:   o.Features,
		shareID:    o.ShareID,
		policy:     o.Policy,
		budget:     o.Budget,
		selector:   newEvaluator(o.Programs),
		filters:    lru.New(maxFilters),
		selections: lru.New(maxFilters),
		kinds:      lru.New(maxKinds),
		lenses:     lru.New(maxLenses),
		sights:     lru.New(maxSights),
	}
}

// PoolGates returns what a pools.Builder must be told about the features.
func (f Features) PoolGates() pools.Gates {
	return pools.Gates{
		PartitionableDevices: f.PartitionableDevices,
		CompatibilityGroups:  f.CompatibilityGroups,
		ConsumableCapacity:   f.ConsumableCapacity,
	}
}
