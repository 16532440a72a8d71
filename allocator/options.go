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

// DefaultBudget is the number of search steps spent on one node before the answer is Undecided. They take well
// under a second, and are fifty times what the hardest benchmark needs (see docs/decisions/0012).
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
	// Policy decides which device is preferred. Nil is FirstFit. With a policy that does not implement
	// Remembered, each node is searched by itself.
	Policy Policy
	// Topology lists attributes that all devices of a claim should have in common, the most important first,
	// such as resource.kubernetes.io/pcieRoot. Each attribute is a preference of every claim with several
	// devices: for all devices, and then for those of each request. It ranks below the preferences of the
	// claims themselves (see package extension). It never changes the alternative of a request or the number of
	// devices. Assignment.Missed does not list it, and requests with allocationMode All are left out.
	Topology []resourceapi.FullyQualifiedName
	// Budget is the number of search steps per node after which the answer is Undecided. The search for
	// preferences may take as many steps again, and misses those that it has not found by then. Zero or less is
	// DefaultBudget.
	Budget int64
	// Memory is the caches of the allocator, which it may share with others. Nil makes a new one.
	Memory *Memory
}

// Allocator compiles claims into problems and answers them, from its Memory or by a search. It is safe for
// concurrent use.
type Allocator struct {
	shareID   func() types.UID
	budget    int64
	few       int          // the number of devices up to which all are judged
	without   solver.Rules // rules that are switched off, in measurements only
	evaluator *eligibility.Evaluator
	memory    *alike.Memory
	// gates are those with which snapshots must be built.
	gates pool.Gates
	// id identifies this allocator among those of one Memory.
	id uint32
	// before is the order of the policy, nil for first fit. uncached is set if the policy does not implement
	// Remembered.
	before   func(a, b *model.Candidate) bool
	uncached bool
	topology []resourceapi.FullyQualifiedName
	// instances are reusable buffers of searches. Nothing in one outlives its search.
	instances sync.Pool
}

// fewDevices is the number of devices of a node up to which it is not worth the while to judge them one by one.
const fewDevices = 1024

// New returns an Allocator.
func New(o Options) *Allocator {
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.Memory == nil {
		o.Memory = NewMemory(MemoryOptions{})
	}
	key := partKey{features: o.Features}
	a := &Allocator{gates: pool.Gates(o.Features.PoolGates()), shareID: o.ShareID, budget: o.Budget, topology: o.Topology, id: o.Memory.ids.Add(1), few: fewDevices}
	a.instances.New = func() any { return new(model.Instance) }
	var reads *alike.Reads
	if _, first := o.Policy.(FirstFit); o.Policy != nil && !first {
		key.policy = o.Policy
		a.before = func(x, y *model.Candidate) bool { return o.Policy.Before(candidate(x), candidate(y)) }
		reads = new(alike.Reads)
		policy, remembered := o.Policy.(Remembered)
		if a.uncached = !remembered; remembered {
			reads.Attributes = policy.Reads()
		}
	}
	known := o.Memory.part(key, reads)
	a.evaluator, a.memory = known.evaluator, known.answers
	return a
}

// CheckTopology reports entries of Options.Topology that are not valid attribute names. Compile does, too.
func CheckTopology(attributes []resourceapi.FullyQualifiedName) error {
	return claims.CheckTopology(attributes)
}

// PoolGates returns the gates with which a pools.Builder must be made for the features.
func (f Features) PoolGates() pools.Gates {
	return pools.Gates{
		PartitionableDevices: f.PartitionableDevices,
		CompatibilityGroups:  f.CompatibilityGroups,
		ConsumableCapacity:   f.ConsumableCapacity,
	}
}
