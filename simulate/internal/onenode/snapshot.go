// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
	"github.com/dray-project/dray/pools"
)

// snapshot is a cluster of one node and the pools that reach it. Allocations there hold for all nodes with the
// same content.
type snapshot struct {
	node  *corev1.Node
	pools *cluster.Snapshot
}

func newSnapshot(gates pools.Gates, node *corev1.Node, slices []*resourceapi.ResourceSlice) *snapshot {
	return &snapshot{node: node, pools: cluster.Build(pool.Gates(gates), slices)}
}

// snapshot returns the node and its pools, with simulated taints.
func (inv *Inventory) snapshot() *snapshot {
	if len(inv.Added) > 0 {
		return newSnapshot(inv.gates, inv.Node, inv.Slices())
	}
	return &snapshot{node: inv.Node, pools: cluster.Of(pool.Gates(inv.gates), inv.index())}
}

// taken is the use of a device, by name.
type taken struct {
	device pools.DeviceID
	use
}

// usage is the use of a snapshot's devices, by pool. It is immutable.
type usage []*pool.Usage

// change returns the usage with the use of some devices replaced. Devices of one pool must be adjacent in the
// list.
func (r *snapshot) change(u usage, list []taken) usage {
	u = slices.Clone(u)
	for len(list) > 0 {
		id := list[0].device.PoolID()
		n := 1
		for n < len(list) && list[n].device.PoolID() == id {
			n++
		}
		if p := r.pools.Pool(pool.ID(id)); p != nil {
			at := slices.IndexFunc(u, func(used *pool.Usage) bool { return used.Pool() == p })
			if at < 0 {
				at, u = len(u), append(u, p.Idle())
			}
			edit := u[at].Edit()
			for i := range list[:n] {
				edit.Set(p.Lookup(list[i].device.Device), list[i].ofPool())
			}
			u[at] = edit.Done()
		}
		list = list[n:]
	}
	return u
}

// ofPool converts the use for package pool.
func (u *use) ofPool() pool.Use {
	found := pool.Use{Exclusive: u.Wholes > 0, Shared: u.shares > 0, Withheld: u.withheld}
	for name, amount := range u.consumed {
		found.Consumed = append(found.Consumed, pool.Consumption{Capacity: name, Amount: quantity.Amount(amount)})
	}
	return found
}

// allocate runs the allocator for the node of the snapshot.
func (r *snapshot) allocate(ctx context.Context, problem *allocator.Problem, u usage) (allocator.Outcome, error) {
	return problem.Allocate(ctx, r.state(u), r.node)
}

func (r *snapshot) state(u usage) *pools.State {
	return (*pools.State)(cluster.NewUsedState(r.pools, u))
}

// NodeUse is a node and the use of its devices.
type NodeUse struct {
	Inventory *Inventory
	Uses      Uses
}

// StateOf returns the use of nodes and of their surroundings as one state of a cluster. It takes time in
// proportion to the devices.
func (k *Asker) StateOf(nodes []NodeUse, around *Surroundings) *pools.State {
	published := slices.Clone(around.Shared.Published)
	for _, n := range nodes {
		published = append(published, n.Inventory.Slices()...)
	}
	r := newSnapshot(k.gates, nil, published)
	var all usage
	for _, n := range nodes {
		all = append(all, r.change(nil, n.Inventory.taken(n.Uses))...)
	}
	for position, pool := range around.Shared.Pools {
		all = append(all, r.change(nil, pool.appendTaken(nil, around.Uses[position]))...)
	}
	return r.state(all)
}

// manyUsages is the capacity of Asker.usages. Building a usage takes longer than answering a question.
// Questions about a state usually come soon after each other.
const manyUsages = 1024

// usage returns the use of the devices in a state, for the example of its content. It is cached.
func (k *Asker) usage(s *State) usage {
	if known, found := k.usages.Get(s); found {
		return known.(usage)
	}
	made := s.content.snapshot().change(nil, s.content.example.taken(s.Uses))
	if k.cache.States > 0 {
		k.usages.Add(s, made)
	}
	return made
}

// follow caches the usage after an answer, derived from the one before it, for the next question.
func (k *Asker) follow(a *Answer) {
	next := a.Next()
	if _, found := k.usages.Get(next); found {
		return
	}
	before, found := k.usages.Get(a.from)
	if !found {
		return
	}
	changed := slices.DeleteFunc(slices.Clone(next.Uses), func(u PlacedUse) bool {
		return !slices.ContainsFunc(a.Own, func(h Holding) bool { return h.Device == u.Device })
	})
	k.usages.Add(next, next.content.snapshot().change(before.(usage), next.content.example.taken(changed)))
}
