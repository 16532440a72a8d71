// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// DefaultBudget is the number of search steps spent on one node before the
// answer is Undecided. It takes well under a second to spend, and is fifty times what the
// hardest cliff of benchmarks takes (see docs/decisions/0012).
const DefaultBudget = 200_000

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
	// Policy decides which device is preferred. Nil is FirstFit. With a policy that is not
	// Remembered each node is searched by itself.
	Policy Policy
	// Topology lists attributes of which the devices of a claim have one value, if that can be had,
	// the most important first, such as resource.kubernetes.io/pcieRoot. Each is a preference of
	// every claim that has several devices, for all of them and then for those of each request,
	// less important than those that claims have by themselves (see package extension). It takes
	// no other alternative of a request and no fewer devices, is not among Assignment.Missed, and
	// leaves out requests with allocationMode All.
	Topology []resourceapi.FullyQualifiedName
	// Budget is the number of search steps per node after which the answer is
	// Undecided. Searches for preferences may take as many again: what they do not find
	// then is missed. Zero or less is DefaultBudget.
	Budget int64
	// Memory is what the allocator remembers, and may share with others. Nil makes an own one.
	Memory *Memory
}

// Allocator compiles claims into problems, and answers them with what its Memory has. It is safe
// for concurrent use.
type Allocator struct {
	shareID   func() types.UID
	budget    int64
	without   solver.Rules // none, but where it is measured what they save
	evaluator *eligibility.Evaluator
	memory    *alike.Memory
	// gates are those with which snapshots have to be built.
	gates pool.Gates
	// line tells the allocators of one Memory apart.
	line uint32
	// before is the order of the policy, nil for first fit. Forgetful is set if it is not Remembered.
	before    func(a, b *model.Candidate) bool
	forgetful bool
	topology  []resourceapi.FullyQualifiedName
	// instances are memory for searches. Nothing in one outlives its search.
	instances sync.Pool
}

// New returns an Allocator.
func New(o Options) *Allocator {
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Memory == nil {
		o.Memory = NewMemory(MemoryOptions{})
	}
	key := partKey{features: o.Features}
	a := &Allocator{gates: pool.Gates(o.Features.PoolGates()), shareID: o.ShareID, budget: o.Budget, topology: o.Topology, line: o.Memory.lines.Add(1)}
	a.instances.New = func() any { return new(model.Instance) }
	var reads *alike.Reads
	if _, first := o.Policy.(FirstFit); o.Policy != nil && !first {
		key.policy = o.Policy
		a.before = func(x, y *model.Candidate) bool { return o.Policy.Before(candidate(x), candidate(y)) }
		reads = new(alike.Reads)
		policy, remembered := o.Policy.(Remembered)
		if a.forgetful = !remembered; remembered {
			reads.Attributes = policy.Reads()
		}
	}
	known := o.Memory.part(key, reads)
	a.evaluator, a.memory = known.evaluator, known.answers
	return a
}

// CheckTopology reports attributes of Options.Topology that are no names. Compile does, too.
func CheckTopology(attributes []resourceapi.FullyQualifiedName) error {
	return claims.CheckTopology(attributes)
}

// PoolGates returns what a pools.Builder must be told about the features.
func (f Features) PoolGates() pools.Gates {
	return pools.Gates{
		PartitionableDevices: f.PartitionableDevices,
		CompatibilityGroups:  f.CompatibilityGroups,
		ConsumableCapacity:   f.ConsumableCapacity,
	}
}
