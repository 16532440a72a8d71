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

// Index is that of package pools.
type Index struct {
	gates pool.Gates
	mu    sync.Mutex
	// known are the clusters that were asked for lately, the last one first. A lineage holds itself.
	known []weak.Pointer[lineage]
}

const (
	// maxLineages is how many clusters an Index remembers: a live one and those that
	// a simulation has in the works.
	maxLineages = 4
	// minSimilarity is what part of two lists together must be in both for one to be
	// taken for the other after some changes. It decides about time, not about answers.
	minSimilarity = 0.25
)

// NewIndex returns an Index without slices.
func NewIndex(gates pool.Gates) *Index { return &Index{gates: gates} }

// Snapshot returns a Snapshot of exactly the given slices, as Build does. The list may
// be modified afterwards, the slices may not.
func (x *Index) Snapshot(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	if found := x.step(list); found != nil {
		return found
	}
	of := fingerprintOf(list)
	l, found := x.find(list, of)
	if found == nil {
		var ok bool
		if found, ok = l.follow(list, of); !ok {
			// A slice is in the list twice. That is a mistake, but one to be counted.
			found = cluster.Build(x.gates, list)
		}
	}
	runtime.KeepAlive(list) // until here, its addresses are those of its slices
	return found
}

// step returns the Snapshot if the list is the last one of the lineage used last, but for a few slices in
// one place. That is found out by comparing pointers, which costs a tenth of a fingerprint.
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

// find returns the lineage that is at a list, with its Snapshot if that is built, or else the one which the
// list continues, which may be a new one.
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

// use puts a lineage in front and holds it.
func (x *Index) use(l *lineage) {
	of := weak.Make(l)
	rest := slices.DeleteFunc(x.known, func(known weak.Pointer[lineage]) bool { return known == of || known.Value() == nil })
	x.known = slices.Insert(rest[:min(len(rest), maxLineages-1)], 0, of)
	l.hold()
}
