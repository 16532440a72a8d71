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

// snapshot is one node with the pools that reach it, and nothing else of the cluster. What is
// allocated there stands for all nodes that have the same content.
type snapshot struct {
	node  *corev1.Node
	pools *cluster.Snapshot
}

func newSnapshot(gates pools.Gates, node *corev1.Node, slices []*resourceapi.ResourceSlice) *snapshot {
	return &snapshot{node: node, pools: cluster.Build(pool.Gates(gates), slices)}
}

// snapshot has the pools as they were read, but for added taints.
func (inv *Inventory) snapshot() *snapshot {
	if len(inv.Added) > 0 {
		return newSnapshot(inv.gates, inv.Node, inv.Slices())
	}
	return &snapshot{node: inv.Node, pools: cluster.Of(pool.Gates(inv.gates), inv.index())}
}

// taken is how a device is in use, by its name.
type taken struct {
	device pools.DeviceID
	use
}

// usage is what is in use of a snapshot, by pool. It is immutable.
type usage []*pool.Usage

// change returns the usage with some devices in use as listed, the devices of a pool one after the other.
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

// ofPool is the use as usages have it.
func (u *use) ofPool() pool.Use {
	found := pool.Use{Exclusive: u.Wholes > 0, Shared: u.shares > 0, Withheld: u.withheld}
	for name, amount := range u.consumed {
		found.Consumed = append(found.Consumed, pool.Consumption{Capacity: name, Amount: quantity.Amount(amount)})
	}
	return found
}

// allocate asks the allocator about the node of the snapshot.
func (r *snapshot) allocate(ctx context.Context, problem *allocator.Problem, u usage) (allocator.Outcome, error) {
	return problem.Allocate(ctx, r.state(u), r.node)
}

func (r *snapshot) state(u usage) *pools.State {
	return (*pools.State)(cluster.NewUsedState(r.pools, u))
}

// NodeUse is a node with what is in use of its devices.
type NodeUse struct {
	Inventory *Inventory
	Uses      Uses
}

// StateOf is what is in use of nodes and of what is around them, as one state of a cluster. It takes time in proportion to the devices.
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

// manyUsages is of how many states the usage is kept. Making it takes longer than asking a question
// about it, and questions about one state come soon after each other.
const manyUsages = 1024

// usage is what is in use in a state, of the example of its content.
func (k *Asker) usage(s *State) usage {
	if known, found := k.usages.Get(s); found {
		return known.(usage)
	}
	made := s.content.snapshot().change(nil, s.content.example.taken(s.Uses))
	if k.bounds.States > 0 {
		k.usages.Add(s, made)
	}
	return made
}

// follow makes the usage after an answer, from the one before it, for the question that comes next.
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
