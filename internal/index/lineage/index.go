// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// Index is the index behind pools.Index.
type Index struct {
	gates pool.Gates
	mu    sync.Mutex
	// known are the clusters that were asked for, the last one first. The pointers are weak, see lineage.hold.
	known []weak.Pointer[lineage]
}

const (
	// maxLineages bounds the clusters of an Index: a live one and a few of simulations.
	maxLineages = 4
	// minSimilarity is the fraction of slices in common with which a list counts as the next one of a cluster.
	// It affects time, not answers.
	minSimilarity = 0.25
)

// NewIndex returns an Index without slices.
func NewIndex(gates pool.Gates) *Index { return &Index{gates: gates} }

// Snapshot returns a Snapshot of exactly the given slices, as Build does. The list may be modified afterwards,
// the slices may not.
func (x *Index) Snapshot(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	if found := x.step(list); found != nil {
		return found
	}
	of := fingerprintOf(list)
	l, found := x.find(list, of)
	if found == nil {
		var ok bool
		if found, ok = l.follow(list, of); !ok {
			// A slice is in the list twice. The index cannot follow such a list, so it is built anew.
			found = cluster.Build(x.gates, list)
		}
	}
	runtime.KeepAlive(list) // the fingerprint is valid up to here
	return found
}

// step returns the Snapshot if the list differs from the last one of the last lineage in a few adjacent slices
// only. It compares pointers, which costs a tenth of a fingerprint. Otherwise it returns nil.
func (x *Index) step(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	x.mu.Lock()
	var last *lineage
	if len(x.known) > 0 {
		last = x.known[0].Value()
	}
	x.mu.Unlock()
	if last == nil {
		return nil
	}
	found := last.step(list)
	if found != nil {
		last.hold()
	}
	return found
}

// find returns the lineage whose current list has the fingerprint, with its Snapshot if that is built.
// Otherwise it returns the most similar lineage, or a new one.
func (x *Index) find(list []*resourceapi.ResourceSlice, of fingerprint) (*lineage, *cluster.Snapshot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var best *lineage
	similarity := minSimilarity
	for _, known := range x.known {
		l := known.Value()
		if l == nil {
			continue
		}
		now := l.current.Load()
		if now.of == of {
			x.use(l)
			return l, now.snapshot
		}
		if s := now.similarity(list, of.count); s >= similarity && (best == nil || s > similarity) {
			best, similarity = l, s
		}
	}
	if best == nil {
		best = newLineage(x.gates, of)
	}
	x.use(best)
	return best, nil
}

// use moves a lineage to the front and holds it.
func (x *Index) use(l *lineage) {
	of := weak.Make(l)
	rest := slices.DeleteFunc(x.known, func(known weak.Pointer[lineage]) bool { return known == of || known.Value() == nil })
	x.known = slices.Insert(rest[:min(len(rest), maxLineages-1)], 0, of)
	l.hold()
}
