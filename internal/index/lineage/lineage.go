// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"runtime"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// lineage follows one cluster from list to list. It is safe for concurrent use. Readers of the current version
// take no lock.
type lineage struct {
	current atomic.Pointer[version]
	mu      sync.Mutex // held while the lineage follows a list
	builder *cluster.Builder
	// list is the last list that was followed. known has its slices.
	list  []*resourceapi.ResourceSlice
	known map[*resourceapi.ResourceSlice]*followed
	turn  int // the number of lists so far
	// held references the lineage itself. Garbage collections empty it, so that a lineage is freed if it is not
	// held again.
	held sync.Pool
}

// hold keeps the lineage alive for one or two garbage collections, which serve as a clock.
func (l *lineage) hold() {
	l.held.Get() // so that the pool has one entry at most
	l.held.Put(l)
}

// followed is a slice of a lineage.
type followed struct {
	source *pool.Source // nil until it is added to the builder
	turn   int          // turn of the last list in which it was
}

// version is a set of slices with its Snapshot. It is immutable. While it is the current version of a lineage,
// its slices live, so that the fingerprint is valid.
type version struct {
	of fingerprint
	// snapshot is nil in the first version of a lineage until it is built.
	snapshot *cluster.Snapshot
}

// sampleSize is how many slices of a list are looked up to estimate its similarity to a version.
const sampleSize = 64

// similarity estimates the number of common slices of the version and a list, divided by that of all slices in
// either. count is the number of slices in the list. It is 0 for a version without a Snapshot.
func (v *version) similarity(list []*resourceapi.ResourceSlice, count int) float64 {
	if v.snapshot == nil || count == 0 {
		return 0
	}
	sample, found := min(len(list), sampleSize), 0
	for i := range sample {
		if slice := list[i*len(list)/sample]; slice != nil && v.snapshot.Has(slice) {
			found++
		}
	}
	both := float64(count*found) / float64(sample)
	return both / (float64(v.of.count+count) - both)
}

func newLineage(gates pool.Gates, first fingerprint) *lineage {
	l := &lineage{builder: cluster.NewBuilder(gates), known: make(map[*resourceapi.ResourceSlice]*followed)}
	l.builder.Keep(l)
	l.current.Store(&version{of: first})
	return l
}

// maxStep is the divisor of the fraction of slices that step lets change.
const maxStep = 8

// step follows a list that differs from the last one in a few adjacent slices. Otherwise, or if the lineage is
// locked, it returns nil and changes nothing.
func (l *lineage) step(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	if !l.mu.TryLock() {
		return nil
	}
	defer l.mu.Unlock()
	now := l.current.Load()
	before, after := differing(l.list, list)
	switch changed := len(before) + len(after); {
	case now.snapshot == nil || changed > len(list)/maxStep:
		return nil
	case changed == 0:
		return now.snapshot
	}
	found, _ := l.move(list, now.of.change(before, after))
	return found
}

// follow makes a list with a fingerprint the current one. It is false, and changes nothing, if a slice is in
// the list twice.
func (l *lineage) follow(list []*resourceapi.ResourceSlice, of fingerprint) (*cluster.Snapshot, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.current.Load(); now.of == of && now.snapshot != nil {
		return now.snapshot, true
	}
	return l.move(list, of)
}

// move is follow with mu held, for a list that differs from the current one.
func (l *lineage) move(list []*resourceapi.ResourceSlice, of fingerprint) (*cluster.Snapshot, bool) {
	arrived, departed, ok := l.compare(list)
	if !ok {
		return nil, false
	}
	for _, slice := range arrived {
		l.known[slice].source = l.builder.Add(slice)
	}
	for _, slice := range departed {
		l.builder.Remove(l.known[slice].source)
		delete(l.known, slice)
	}
	same := 0
	for same < min(len(l.list), len(list)) && l.list[same] == list[same] {
		same++
	}
	clear(l.list[same:]) // so that a longer list does not keep its slices alive
	l.list = append(l.list[:same], list[same:]...)
	next := &version{of, l.builder.Snapshot()}
	l.current.Store(next)
	runtime.KeepAlive(departed) // the fingerprint of the last version was valid up to here
	return next.snapshot, true
}

// compare returns the slices that a list has in addition to the last one, and those that it lacks. It is false
// if a slice is in the list twice. Otherwise the new slices are in known, but not in the builder.
func (l *lineage) compare(list []*resourceapi.ResourceSlice) (arrived, departed []*resourceapi.ResourceSlice, ok bool) {
	l.turn++
	before, after := differing(l.list, list)
	stayed, twice := 0, false
	for _, slice := range after {
		switch known := l.known[slice]; {
		case slice == nil:
		case known == nil:
			l.known[slice] = &followed{turn: l.turn}
			arrived = append(arrived, slice)
		case known.turn == l.turn:
			twice = true
		default:
			known.turn = l.turn
			stayed++
		}
	}
	for _, slice := range before {
		switch {
		case slice == nil:
		case l.known[slice].turn == l.turn:
			stayed--
		default:
			departed = append(departed, slice)
		}
	}
	// If a slice that stayed is in the common part of the lists as well, it is in the list twice.
	if twice || stayed != 0 {
		for _, slice := range arrived {
			delete(l.known, slice)
		}
		return nil, nil, false
	}
	return arrived, departed, true
}

// differing returns both lists without their common prefix and suffix.
func differing(a, b []*resourceapi.ResourceSlice) (x, y []*resourceapi.ResourceSlice) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
