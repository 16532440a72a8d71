// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/lineage"
	"github.com/dray-project/dray/internal/index/pool"
)

// Gates are the features that decide which parts of ResourceSlices and allocated claims count.
type Gates struct {
	// PartitionableDevices honours shared counters and per-device node selection. Without it, slices that use
	// either count for the completeness of their pool, but contribute nothing.
	PartitionableDevices bool
	// CompatibilityGroups honours compatibility groups. Without it, slices with devices that declare groups are
	// left out, which makes their pool incomplete.
	CompatibilityGroups bool
	// ConsumableCapacity honours share IDs. Without it, an allocated share takes the whole device, as in
	// kube-scheduler.
	ConsumableCapacity bool
}

// Snapshot is an immutable index of all pools of a cluster. It may be used by any
// number of goroutines. Nil and the zero value are a cluster without slices.
type Snapshot cluster.Snapshot

// nothing is the cluster without slices.
var nothing = cluster.Build(pool.Gates{}, nil)

func (s *Snapshot) index() *cluster.Snapshot {
	if of := (*cluster.Snapshot)(s); of != nil && of.Built() {
		return of
	}
	return nothing
}

// Build makes a Snapshot of slices all at once. Slices with equal object names are
// all kept, in the order given. Nil slices are ignored. A slice without driver or
// pool name belongs to the pool with the empty name. The slices are kept by
// pointer and must not be modified while the Snapshot is in use.
func Build(gates Gates, slices []*resourceapi.ResourceSlice) *Snapshot {
	return (*Snapshot)(cluster.Build(pool.Gates(gates), slices))
}

// Gates returns the gates that the Snapshot was built with.
func (s *Snapshot) Gates() Gates { return Gates(s.index().Gates()) }

// Len is the number of pools.
func (s *Snapshot) Len() int { return s.index().Len() }

// Pools lists all pools, sorted by driver and name.
func (s *Snapshot) Pools() iter.Seq[Pool] {
	return each(s.index().Pools(), func(p *pool.Pool) Pool { return Pool{p} })
}

// Pool returns a pool. It is false if there is none of that ID.
func (s *Snapshot) Pool(id PoolID) (Pool, bool) {
	p := s.index().Pool(pool.ID(id))
	return Pool{p}, p != nil
}

// GatherPools returns the pools that the node can reach, as an allocation on the node sees them. These are the
// pools of which a slice of the highest generation reaches the node. What depends on the name of the node alone
// is cached. Otherwise, the time depends on the number of pools with node selectors.
//
// The error says that node is nil, or names a slice (and device) whose node selector has to be evaluated and
// does not parse.
func (s *Snapshot) GatherPools(node *corev1.Node) (NodeView, error) {
	view, err := s.index().GatherPools(node)
	return NodeView{view}, err
}

// NodeView is what one node can reach.
type NodeView struct{ view cluster.NodeView }

// Node returns the node.
func (v NodeView) Node() *corev1.Node { return v.view.Node }

// Pools lists the pools in first-fit order: by driver, then name. Pools with binding conditions come last, in
// the same order.
func (v NodeView) Pools() iter.Seq[PoolView] {
	return each(v.view.Pools, func(p *pool.View) PoolView { return PoolView{p} })
}

// Builder follows the ResourceSlices of a cluster and makes Snapshots of them.
// It is not safe for concurrent use; the Snapshots it returns are.
type Builder cluster.Builder

func (b *Builder) index() *cluster.Builder { return (*cluster.Builder)(b) }

// NewBuilder returns a Builder without slices.
func NewBuilder(gates Gates) *Builder { return (*Builder)(cluster.NewBuilder(pool.Gates(gates))) }

// Set adds slices, or replaces those with the same object names. Setting a pointer that the builder already has
// costs nothing. Nil slices are ignored; a slice without driver or pool name belongs to the pool with the empty
// name. The slices are kept by pointer and must not be modified afterwards, as those of an informer.
func (b *Builder) Set(slices ...*resourceapi.ResourceSlice) { b.index().Set(slices...) }

// Delete removes the slice with an object name, if there is one.
func (b *Builder) Delete(name string) { b.index().Delete(name) }

// Snapshot returns the current state of the cluster. Pools without changed slices are shared with the last
// Snapshot; if nothing changed, it is the same. Otherwise the cost is that of rebuilding the changed pools.
func (b *Builder) Snapshot() *Snapshot { return (*Snapshot)(b.index().Snapshot()) }

// Index finds the Snapshot for a list of slices, for callers that do not see what changed. It recognises slices
// by pointer, in any order. The list of an earlier call costs reading its pointers. A list with a few changes
// costs the pools that changed and, if the order differs, a look-up per slice. A few clusters may be asked for
// in turn. It is safe for concurrent use, and building for one cluster does not block calls for another.
//
// An Index keeps its data on a cluster as long as it is asked for between garbage collections, or a Snapshot of
// it is held.
type Index lineage.Index

// NewIndex returns an Index without slices.
func NewIndex(gates Gates) *Index { return (*Index)(lineage.NewIndex(pool.Gates(gates))) }

// Snapshot returns a Snapshot of exactly the given slices, as Build does. The list may be modified afterwards,
// the slices may not.
func (x *Index) Snapshot(list []*resourceapi.ResourceSlice) *Snapshot {
	return (*Snapshot)((*lineage.Index)(x).Snapshot(list))
}
