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

// lineage is one cluster, followed from list to list. It is safe for concurrent use:
// readers of the current version take no lock.
type lineage struct {
	current atomic.Pointer[version]
	mu      sync.Mutex // held while the lineage follows a list
	builder *cluster.Builder
	// list is the last list that was followed, known has its slices.
	list  []*resourceapi.ResourceSlice
	known map[*resourceapi.ResourceSlice]*followed
	turn  int // counts the lists
	// held has the lineage itself. A garbage collection or two later it has not, unless it was put in again.
	held sync.Pool
}

// hold keeps the lineage alive for a while: there is no clock in here.
func (l *lineage) hold() {
	l.held.Get() // lest it has many
	l.held.Put(l)
}

// followed is a slice of a lineage.
type followed struct {
	source *pool.Source // nil until it is added
	turn   int          // of the last list in which it was seen
}

// version is a set of slices and its Snapshot. It is immutable. As long as it is the
// current version of its lineage, the slices live, so that the fingerprint is theirs.
type version struct {
	of fingerprint
	// snapshot is nil in the version which says what a new lineage is going to follow.
	snapshot *cluster.Snapshot
}

// sampleSize is how many slices of a list are looked for to tell how much it has in common with others.
const sampleSize = 64

// similarity estimates which part of all slices of the version and a list, of that many, is in both.
// Nothing is known of a version without a Snapshot.
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

// maxStep is what part of the slices, as a divisor, may come or go for a list to be the next of the same lineage
// without comparing it to others.
const maxStep = 8

// step follows a list that differs from the last one in a few slices in one place. It is nil, and the
// lineage as it was, if there is more to it, or somebody else changes the lineage at the moment.
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

// follow makes the list, of which the fingerprint is given, the lineage's current one. It is false, and the
// lineage as it was, if a slice is in the list twice.
func (l *lineage) follow(list []*resourceapi.ResourceSlice, of fingerprint) (*cluster.Snapshot, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.current.Load(); now.of == of && now.snapshot != nil {
		return now.snapshot, true
	}
	return l.move(list, of)
}

// move is follow for a list that is another one, with mu held.
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
	clear(l.list[same:]) // lest a longer list keeps its slices
	l.list = append(l.list[:same], list[same:]...)
	next := &version{of, l.builder.Snapshot()}
	l.current.Store(next)
	runtime.KeepAlive(departed) // while the last version is the current one
	return next.snapshot, true
}

// compare tells what a list has more and less than the last one. It is false if a slice
// is in the list twice; otherwise new slices are known, but not added.
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
	// One that stayed, and is in what the lists have in common as well, is in the list twice.
	if twice || stayed != 0 {
		for _, slice := range arrived {
			delete(l.known, slice)
		}
		return nil, nil, false
	}
	return arrived, departed, true
}

// differing leaves out how two lists begin and end alike: between lists of one order, most of what did
// not change.
func differing(a, b []*resourceapi.ResourceSlice) (x, y []*resourceapi.ResourceSlice) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
